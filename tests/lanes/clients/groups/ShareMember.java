import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/**
 * A member of a share group, like Member.java for consumer groups. It prints the arrival of its first records, and the
 * partition, offset and delivery count of each redelivered record.
 */
public class ShareMember {
    private static final BlockingQueue<String[]> ORDERS = new LinkedBlockingQueue<>();

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        for (String setting : Arrays.copyOfRange(arguments, 1, arguments.length)) {
            String[] parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        Thread listening = new Thread(ShareMember::listen);
        listening.setDaemon(true);
        listening.start();
        KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings);
        consumer.subscribe(List.of(arguments[0].split(",")));
        say("start", "");
        boolean first = true;
        long slow = 0;
        for (String[] order = null; order == null || order[0].equals("slow"); order = ORDERS.poll()) {
            slow = order == null ? slow : Long.parseLong(order[1]);
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            if (first && !records.isEmpty()) {
                say("records", "");
                first = false;
            }
            for (ConsumerRecord<String, String> record : records) {
                short count = record.deliveryCount().orElse((short) 1);
                if (count > 1) {
                    say("again", record.topic() + "-" + record.partition() + " " + record.offset() + " " + count);
                }
            }
            if (slow > 0 && !records.isEmpty()) {
                say("slow-begin", Long.toString(slow));
                Thread.sleep(slow);
                say("slow-end", "");
                slow = 0;
            }
        }
        say("closing", "");
        consumer.close();
        say("closed", "");
    }

    private static void listen() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                ORDERS.put(line.split(" ", 2));
            }
        } catch (Exception broken) {
            say("exception", broken.toString());
        }
    }

    private static synchronized void say(String what, String rest) {
        System.out.println(System.currentTimeMillis() + " " + what + " " + rest);
    }
}
