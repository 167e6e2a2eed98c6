import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * A worker with Kafka's own client; common.py describes workers. As "copy" it both consumes and produces: it reads the
 * topic and writes to TOPIC-copy in transactions that include the offsets; the orders "commit COUNT" and "abort COUNT"
 * state the number of records. After an abort it returns to the committed offsets. Settings prefixed with "producer."
 * are for its producer alone.
 */
public class Worker {
    private static final BlockingQueue<String[]> ORDERS = new LinkedBlockingQueue<>();
    private static final Properties SETTINGS = new Properties();
    private static final Properties OF_PRODUCER = new Properties();
    private static String topic;
    private static String name;

    public static void main(String[] arguments) throws Exception {
        topic = arguments[1];
        for (String setting : Arrays.copyOfRange(arguments, 2, arguments.length)) {
            String[] parts = setting.split("=", 2);
            if (parts[0].startsWith("producer.")) {
                OF_PRODUCER.put(parts[0].substring("producer.".length()), parts[1]);
            } else {
                SETTINGS.put(parts[0], parts[1]);
            }
        }
        name = SETTINGS.getProperty("client.id");
        Thread listening = new Thread(Worker::listen);
        listening.setDaemon(true);
        listening.start();
        switch (arguments[0]) {
            case "produce" -> produce();
            case "consume" -> consume();
            default -> copy();
        }
        say("closed", "");
    }

    // ---------------------------------------------------------------- producer
    private static void produce() throws Exception {
        SETTINGS.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        SETTINGS.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(SETTINGS)) {
            if (SETTINGS.containsKey("transactional.id")) {
                producer.initTransactions();
            }
            say("ready", "");
            int count = 0;
            int transaction = 0;
            boolean open = false;
            for (String[] order = ORDERS.take(); !order[0].equals("close"); order = ORDERS.take()) {
                switch (order[0]) {
                    case "send" -> {
                        int end = count + Integer.parseInt(order[1]);
                        for (; count < end; count++) {
                            send(producer, String.format("%s-%04d", name, count), open ? transaction : null);
                            Thread.sleep(Long.parseLong(order[2]));
                        }
                    }
                    case "begin" -> {
                        producer.beginTransaction();
                        open = true;
                        transaction++;
                    }
                    case "commit" -> {
                        producer.commitTransaction();
                        open = false;
                    }
                    case "abort" -> {
                        producer.abortTransaction();
                        open = false;
                    }
                    default -> producer.flush();
                }
                say("done", text("order", order[0]));
            }
        }
    }

    private static void send(KafkaProducer<String, String> producer, String id, Integer transaction) {
        say("sent", text("id", id) + ", \"transaction\": " + transaction);
        producer.send(new ProducerRecord<>(topic, id, "value of " + id), (done, error) -> {
            if (error != null) {
                say("failed", text("id", id) + ", " + text("error", error.toString()));
            } else {
                say("delivered", text("id", id) + ", " + place(done.partition(), done.offset()));
            }
        });
    }

    // ---------------------------------------------------------------- consumer
    private static KafkaConsumer<String, String> subscribed() {
        SETTINGS.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        SETTINGS.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        SETTINGS.put("interceptor.classes", Interceptor.class.getName());
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(SETTINGS);
        consumer.subscribe(List.of(topic), new Listener());
        say("ready", "");
        return consumer;
    }

    private static void consume() {
        Map<Integer, Long> next = new TreeMap<>();
        try (KafkaConsumer<String, String> consumer = subscribed()) {
            String[] order = null;
            while (order == null || !order[0].equals("close")) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<String, String> record : records) {
                    received(record);
                    next.put(record.partition(), record.offset() + 1);
                }
                order = records.isEmpty() ? ORDERS.poll() : null;
                if (order != null) {
                    obey(consumer, next, order);
                    say("done", text("order", order[0]));
                }
            }
        }
    }

    private static void obey(KafkaConsumer<String, String> consumer, Map<Integer, Long> next, String[] order) {
        if (order[0].equals("commit")) {
            say("committing", offsets(next));
            try {
                consumer.commitSync(positions(next));
                say("committed", offsets(next) + ", \"ordered\": true");
            } catch (KafkaException refused) {
                say("refused", text("error", refused.toString()));
            }
        } else if (order[0].equals("skip")) {
            for (TopicPartition partition : consumer.assignment()) {
                long later = next.getOrDefault(partition.partition(), 0L) + Long.parseLong(order[1]);
                next.put(partition.partition(), later);
                consumer.seek(partition, later);
            }
            say("skipped", offsets(next));
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> positions(Map<Integer, Long> next) {
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        next.forEach((partition, offset) ->
            positions.put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset)));
        return positions;
    }

    private static void received(ConsumerRecord<String, String> record) {
        say("received", text("id", record.key()) + ", " + place(record.partition(), record.offset()));
    }

    // ---------------------------------------------------------------- both
    private static void copy() throws Exception {
        OF_PRODUCER.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        OF_PRODUCER.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        OF_PRODUCER.put("bootstrap.servers", SETTINGS.getProperty("bootstrap.servers"));
        OF_PRODUCER.put("client.id", name);
        List<ConsumerRecord<String, String>> waiting = new ArrayList<>();
        int transaction = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(OF_PRODUCER);
                KafkaConsumer<String, String> consumer = subscribed()) {
            producer.initTransactions();
            String[] order = null;
            while (order == null || !order[0].equals("close")) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    received(record);
                    waiting.add(record);
                }
                order = ORDERS.peek();
                if (order == null || order.length > 1 && waiting.size() < Integer.parseInt(order[1])) {
                    order = null;
                    continue;
                }
                ORDERS.take();
                if (order.length > 1) {
                    List<ConsumerRecord<String, String>> part = waiting.subList(0, Integer.parseInt(order[1]));
                    copy(producer, consumer.groupMetadata(), part, ++transaction, order[0]);
                    part.clear();
                    if (order[0].equals("abort")) {
                        waiting.clear();
                        consumer.committed(consumer.assignment()).forEach((partition, at) ->
                            consumer.seek(partition, at == null ? 0 : at.offset()));
                    }
                }
                say("done", text("order", order[0]));
            }
        }
    }

    private static void copy(KafkaProducer<String, String> producer, ConsumerGroupMetadata group,
            List<ConsumerRecord<String, String>> records, int transaction, String end) {
        Map<Integer, Long> next = new TreeMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<String, String> record : records) {
            String id = String.format("%s-%s-%d", name, record.key(), transaction);
            say("sent", text("id", id) + ", \"transaction\": " + transaction);
            producer.send(new ProducerRecord<>(topic + "-copy", id, record.value()), (done, error) ->
                say(error == null ? "delivered" : "failed",
                    text("id", id) + (error == null ? ", " + place(done.partition(), done.offset()) : "")));
            next.merge(record.partition(), record.offset() + 1, Math::max);
        }
        say("committing", offsets(next) + ", \"transaction\": " + transaction);
        producer.sendOffsetsToTransaction(positions(next), group);
        if (end.equals("commit")) {
            producer.commitTransaction();
            say("committed", offsets(next) + ", \"ordered\": true, \"transaction\": " + transaction);
        } else {
            producer.abortTransaction();
        }
    }

    // ---------------------------------------------------------------- output
    private static void listen() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                ORDERS.put(line.split(" "));
            }
        } catch (Exception broken) {
            say("exception", text("error", broken.toString()));
        }
    }

    private static synchronized void say(String what, String more) {
        long time = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
        String rest = more.isEmpty() ? "" : ", " + more;
        System.out.println("{\"t\": " + time + ", " + text("what", what) + rest + "}");
    }

    private static String text(String key, String value) {
        return "\"" + key + "\": \"" + value.replace("\\", "/").replace("\"", "'").replace("\n", " ") + "\"";
    }

    private static String place(int partition, long offset) {
        return "\"partition\": " + partition + ", \"offset\": " + offset;
    }

    private static String offsets(Map<Integer, Long> offsets) {
        List<String> pairs = new ArrayList<>();
        offsets.forEach((partition, offset) -> pairs.add("[" + partition + ", " + offset + "]"));
        return "\"offsets\": [" + String.join(", ", pairs) + "]";
    }

    private static String partitions(Collection<TopicPartition> partitions) {
        return "\"partitions\": " + partitions.stream().map(TopicPartition::partition).sorted().toList();
    }

    private static class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say("assigned", partitions(partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            say("revoked", partitions(partitions));
        }
    }

    /** Observes automatic commits, which have no callback. */
    public static class Interceptor implements ConsumerInterceptor<String, String> {
        @Override
        public ConsumerRecords<String, String> onConsume(ConsumerRecords<String, String> records) {
            return records;
        }

        @Override
        public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            Map<Integer, Long> next = new TreeMap<>();
            offsets.forEach((partition, at) -> next.put(partition.partition(), at.offset()));
            say("committed", offsets(next));
        }

        @Override
        public void close() { }

        @Override
        public void configure(Map<String, ?> ignored) { }
    }
}
