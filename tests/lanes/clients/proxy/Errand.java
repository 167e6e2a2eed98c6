// Kafka's own client; see common.py. It has the errand only: to endure there are Kafka's verifiable clients.
import java.time.Duration;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

public class Errand {
    static String bootstrap, topic;

    static Map<String, Object> with(Object... more) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "client.id", "java"));
        for (int i = 0; i < more.length; i += 2) all.put((String) more[i], more[i + 1]);
        return all;
    }

    static KafkaProducer<String, String> producer(Object... more) {
        return new KafkaProducer<>(with(more), new StringSerializer(), new StringSerializer());
    }

    static List<String> values(String kind, int count) {
        return IntStream.range(0, count).mapToObj(n -> kind + " " + n).toList();
    }

    static void send(KafkaProducer<String, String> producer, String kind, int count) throws Exception {
        for (String value : values(kind, count)) producer.send(new ProducerRecord<>(topic, value, value));
        producer.flush();
    }

    static void produce(int count) throws Exception {
        try (var plain = producer()) { send(plain, "plain", count); }
        try (var transactional = producer("transactional.id", topic)) {
            transactional.initTransactions();
            transactional.beginTransaction();
            send(transactional, "committed", count);
            transactional.commitTransaction();
            transactional.beginTransaction();
            send(transactional, "aborted", count);
            transactional.abortTransaction();
        }
    }

    /** Two members that keep polling until the group has been described: a rebalance needs both. */
    static class Group {
        final Set<String> seen = Collections.synchronizedSet(new TreeSet<>());
        final Set<Integer> assigned = Collections.synchronizedSet(new HashSet<>());
        volatile boolean left;

        void consume(int member, String protocol) {
            var properties = with("group.id", topic + "-" + protocol, "group.protocol", protocol,
                "auto.offset.reset", "earliest", "isolation.level", "read_committed");
            try (var consumer =
                    new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of(topic));
                while (!left) {
                    for (var record : consumer.poll(Duration.ofMillis(200))) seen.add(record.value());
                    if (!consumer.assignment().isEmpty()) assigned.add(member);
                }
                consumer.commitSync();
            }
        }
    }

    /** KIP-932: records are acknowledged one by one, through ShareFetch and ShareAcknowledge. */
    static Set<String> share(Admin admin, Set<String> wanted) throws Exception {
        String group = topic + "-share";
        var set = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        var isolation = new AlterConfigOp(
            new ConfigEntry("share.isolation.level", "read_committed"), AlterConfigOp.OpType.SET);
        var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(set, isolation))).all().get();
        Set<String> seen = new HashSet<>();
        var properties = with("group.id", group);
        try (var consumer = new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (!seen.containsAll(wanted) && System.nanoTime() < deadline) {
                for (var record : consumer.poll(Duration.ofMillis(200))) seen.add(record.value());
                consumer.commitSync();
            }
        }
        return seen;
    }

    static int group(Admin admin, String protocol, Set<String> wanted, Set<String> seen) throws Exception {
        var group = new Group();
        var members = IntStream.range(0, 2).mapToObj(n -> new Thread(() -> group.consume(n, protocol))).toList();
        members.forEach(Thread::start);
        long deadline = System.nanoTime() + 60_000_000_000L;
        while ((group.assigned.size() < 2 || !group.seen.containsAll(wanted)) && System.nanoTime() < deadline)
            Thread.sleep(100);
        String name = topic + "-" + protocol;
        int size = admin.describeConsumerGroups(List.of(name)).all().get().get(name).members().size();
        group.left = true;
        for (Thread member : members) member.join();
        seen.addAll(group.seen);
        return size;
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[1];
        topic = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        try (Admin admin = Admin.create(with())) {
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 3))).all().get();
            produce(count);
            Set<String> wanted = Stream.of("plain", "committed").flatMap(kind -> values(kind, count).stream())
                .collect(Collectors.toSet());
            Set<String> classic = new TreeSet<>();
            Set<String> kip848 = new TreeSet<>();
            int size = Math.min(group(admin, "classic", wanted, classic), group(admin, "consumer", wanted, kip848));
            Set<String> shared = share(admin, wanted);
            for (Set<String> other : List.of(kip848, shared))
                if (!other.equals(classic)) throw new IllegalStateException("saw " + other + ", not " + classic);
            var nodes = admin.describeCluster().nodes().get();
            admin.describeMetadataQuorum().quorumInfo().get();
            admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.TOPIC, topic))).all().get();
            admin.describeLogDirs(nodes.stream().map(Node::id).toList()).allDescriptions().get();
            admin.listGroups().all().get();
            admin.deleteTopics(List.of(topic)).all().get();
            String brokers = nodes.stream().map(n -> "[" + n.id() + ", \"" + n.host() + "\", " + n.port() + "]")
                .collect(Collectors.joining(", "));
            String consumed = classic.stream().map(v -> '"' + v + '"').collect(Collectors.joining(", "));
            System.out.println("{\"brokers\": [" + brokers + "], \"members\": " + size + ", \"consumed\": [" + consumed + "]}");
        }
    }
}
