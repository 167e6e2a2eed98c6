// rdkafka, the Rust binding of librdkafka, through a proxy: the errand that ../../proxy/common.py describes.
// Arguments: errand, address, topic, count.
use std::collections::BTreeSet;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const MEMBERS: usize = 2;
const PARTITIONS: i32 = 3;
const REPLICAS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);

/// What the members of the group have in common; they go on polling until it has been looked at.
#[derive(Default)]
struct Group {
    seen: Mutex<BTreeSet<String>>,
    assigned: Mutex<BTreeSet<usize>>,
    left: AtomicBool,
}

fn configuration(address: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", address)
        .set("client.id", "rdkafka");
    config
}

fn values(kind: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{kind} {number}"))
        .collect()
}

fn send(
    producer: &ThreadedProducer<DefaultProducerContext>,
    topic: &str,
    kind: &str,
    count: usize,
) -> Fallible<()> {
    for value in values(kind, count) {
        producer
            .send(BaseRecord::to(topic).key(&value).payload(&value))
            .map_err(|(error, _)| error)?;
    }
    Ok(producer.flush(PATIENCE)?)
}

fn produce(address: &str, topic: &str, count: usize) -> Fallible<()> {
    let plain: ThreadedProducer<_> = configuration(address)
        .set("compression.type", "lz4")
        .create()?;
    send(&plain, topic, "plain", count)?;
    let transactional: ThreadedProducer<_> = configuration(address)
        .set("transactional.id", topic)
        .create()?;
    transactional.init_transactions(PATIENCE)?;
    transactional.begin_transaction()?;
    send(&transactional, topic, "committed", count)?;
    transactional.commit_transaction(PATIENCE)?;
    transactional.begin_transaction()?;
    send(&transactional, topic, "aborted", count)?;
    Ok(transactional.abort_transaction(PATIENCE)?)
}

fn consume(address: &str, topic: &str, member: usize, group: &Group) -> Fallible<()> {
    let consumer: BaseConsumer = configuration(address)
        .set("group.id", topic)
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .set("session.timeout.ms", "6000")
        .create()?;
    consumer.subscribe(&[topic])?;
    while !group.left.load(Ordering::Relaxed) {
        // errors arrive here too, such as a topic that the broker does not know yet: the next poll continues
        if let Some(Ok(message)) = consumer.poll(PAUSE) {
            let value = String::from_utf8(message.payload().unwrap_or_default().to_vec())?;
            group.seen.lock().unwrap().insert(value);
        }
        if consumer.assignment()?.count() > 0 {
            group.assigned.lock().unwrap().insert(member);
        }
    }
    Ok(())
}

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (address, topic) = (arguments[2].clone(), arguments[3].clone());
    let count: usize = arguments[4].parse()?;

    let admin: AdminClient<DefaultClientContext> = configuration(&address).create()?;
    let options = AdminOptions::new()
        .operation_timeout(Some(PATIENCE))
        .request_timeout(Some(PATIENCE));
    let wanted = NewTopic::new(&topic, PARTITIONS, TopicReplication::Fixed(REPLICAS));
    for made in block_on(admin.create_topics([&wanted], &options))? {
        made.map_err(|(name, code)| format!("{name} was not made: {code}"))?;
    }
    produce(&address, &topic, count)?;

    let group = Arc::new(Group::default());
    let members: Vec<_> = (0..MEMBERS)
        .map(|member| {
            let (address, topic, group) = (address.clone(), topic.clone(), group.clone());
            thread::spawn(move || consume(&address, &topic, member, &group))
        })
        .collect();
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let complete = group.seen.lock().unwrap().len() == 2 * count;
        if complete && group.assigned.lock().unwrap().len() == MEMBERS {
            break;
        }
        thread::sleep(PAUSE);
    }
    let cluster = admin.inner().fetch_metadata(Some(&topic), PATIENCE)?;
    let brokers: Vec<String> = cluster
        .brokers()
        .iter()
        .map(|each| format!("[{}, {:?}, {}]", each.id(), each.host(), each.port()))
        .collect();
    let listed = admin.inner().fetch_group_list(Some(&topic), PATIENCE)?;
    let size = listed
        .groups()
        .iter()
        .find(|each| each.name() == topic)
        .ok_or("the group is not listed")?
        .members()
        .len();
    for described in
        block_on(admin.describe_configs([&ResourceSpecifier::Topic(&topic)], &options))?
    {
        described.map_err(|code| format!("the topic's configuration was not told: {code}"))?;
    }
    group.left.store(true, Ordering::Relaxed);
    for member in members {
        member.join().map_err(|_| "a member panicked")??;
    }
    for deleted in block_on(admin.delete_topics(&[&topic], &options))? {
        deleted.map_err(|(name, code)| format!("{name} was not deleted: {code}"))?;
    }
    let consumed: Vec<String> = group.seen.lock().unwrap().iter().cloned().collect();
    let brokers = brokers.join(", ");
    println!("{{\"brokers\": [{brokers}], \"members\": {size}, \"consumed\": {consumed:?}}}");
    Ok(())
}
