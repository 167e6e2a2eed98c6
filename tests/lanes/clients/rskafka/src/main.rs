// rskafka, written in Rust alone, through a proxy: the errand that ../../proxy/common.py describes, as far as it goes.
// It has no groups, no transactions, and does not tell of brokers: all partitions are read from their first offset.
// Arguments: errand, address, topic, count.
use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use chrono::Utc;
use rskafka::client::partition::{Compression, OffsetAt, UnknownTopicHandling};
use rskafka::client::ClientBuilder;
use rskafka::record::Record;

type Fallible<T> = Result<T, Box<dyn Error>>;

const PARTITIONS: i32 = 3;
const REPLICAS: i16 = 3;
const WAIT_MS: i32 = 500;
const TIMEOUT_MS: i32 = 30_000;
const MOST_BYTES: i32 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn record(value: String) -> Record {
    Record {
        key: Some(value.clone().into_bytes()),
        value: Some(value.into_bytes()),
        headers: BTreeMap::from([("made by".to_owned(), b"rskafka".to_vec())]),
        timestamp: Utc::now(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (address, topic) = (arguments[2].clone(), arguments[3].clone());
    let count: i32 = arguments[4].parse()?;

    let client = ClientBuilder::new(vec![address])
        .client_id("rskafka")
        .build()
        .await?;
    let controller = client.controller_client()?;
    controller
        .create_topic(&topic, PARTITIONS, REPLICAS, TIMEOUT_MS)
        .await?;

    let codecs = [
        Compression::NoCompression,
        Compression::Lz4,
        Compression::Zstd,
    ];
    let mut seen = Vec::new();
    for (partition, codec) in (0..PARTITIONS).zip(codecs) {
        let leader = client
            .partition_client(&topic, partition, UnknownTopicHandling::Retry)
            .await?;
        let numbers = (0..count).filter(|number| number % PARTITIONS == partition);
        let records = numbers
            .map(|number| record(format!("plain {number}")))
            .collect();
        leader.produce(records, codec).await?;

        let mut next = leader.get_offset(OffsetAt::Earliest).await?;
        let end = leader.get_offset(OffsetAt::Latest).await?;
        let deadline = Instant::now() + PATIENCE;
        while next < end && Instant::now() < deadline {
            let (records, _) = leader.fetch_records(next, 1..MOST_BYTES, WAIT_MS).await?;
            for each in records {
                seen.push(String::from_utf8(each.record.value.unwrap_or_default())?);
                next = each.offset + 1;
            }
        }
        leader.delete_records(end, TIMEOUT_MS).await?;
    }
    if !client
        .list_topics()
        .await?
        .iter()
        .any(|each| each.name == topic)
    {
        return Err("the topic is not listed".into());
    }
    controller.delete_topic(&topic, TIMEOUT_MS).await?;
    println!("{{\"brokers\": [], \"members\": 0, \"consumed\": {seen:?}}}");
    Ok(())
}
