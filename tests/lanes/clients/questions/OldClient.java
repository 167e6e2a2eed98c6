import java.util.Collections;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Sends and reads a record, with only the features of Kafka's client in 0.9; arguments: address, topic, client ID. It
 * prints the results in the format of the workers (common.py).
 */
public class OldClient {
    private static final int PATIENCE_MS = 8000;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", arguments[2] + "-maker");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("max.block.ms", Integer.toString(PATIENCE_MS));
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        try {
            producer.send(new ProducerRecord<>(arguments[1], arguments[2], "old")).get(PATIENCE_MS, TimeUnit.MS);
            say("delivered", "");
        } catch (Exception refused) {
            say("failed", refused.toString());
        }
        producer.close(0, TimeUnit.MS);
        settings.put("client.id", arguments[2] + "-taker");
        settings.put("group.id", "g-" + arguments[2]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        Thread reading = new Thread(() -> read(settings, arguments[1]));
        reading.setDaemon(true);
        reading.start();
        reading.join(2 * PATIENCE_MS);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** Polls until a record arrives; 0.9 can wait for a coordinator indefinitely. */
    private static void read(Properties settings, String topic) {
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(Collections.singletonList(topic));
        try {
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(500)) {
                    say("received", record.key());
                    return;
                }
            }
            say("failed", "nothing came");
        } catch (Exception refused) {
            say("failed", refused.toString());
        }
    }

    private static void say(String what, String rest) {
        String text = rest.replace("\\", "/").replace("\"", "'").replace("\n", " ");
        System.out.println("{\"t\": " + System.currentTimeMillis() * 1000 + ", \"what\": \"" + what + "\", \"text\": \"" + text + "\"}");
    }
}
