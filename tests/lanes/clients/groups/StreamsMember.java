import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * An instance of a Streams application that counts the values of a topic, in a store with standbys. It prints the tasks
 * of its thread whenever they change: milliseconds since the epoch, a word, and the tasks. Arguments are the topic and
 * settings of Streams; "close" on its input closes it.
 */
public class StreamsMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        for (String setting : Arrays.copyOfRange(arguments, 1, arguments.length)) {
            String[] parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[0]).groupBy((key, value) -> value).count(Materialized.as("counts"));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch closing = new CountDownLatch(1);
        Thread listening = new Thread(() -> listen(closing));
        listening.setDaemon(true);
        listening.start();
        say("start", "");
        streams.start();
        String latest = "";
        while (!closing.await(100, TimeUnit.MS)) {
            TreeSet<String> active = new TreeSet<>();
            TreeSet<String> standby = new TreeSet<>();
            for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
                thread.activeTasks().forEach(task -> active.add(task.taskId().toString()));
                thread.standbyTasks().forEach(task -> standby.add(task.taskId().toString()));
            }
            String now = "active " + String.join(",", active) + " standby " + String.join(",", standby);
            if (!now.equals(latest) && !(active.isEmpty() && standby.isEmpty())) {
                say("tasks", now);
                latest = now;
            }
        }
        say("closing", "");
        streams.close(Duration.ofSeconds(20));
        say("closed", "");
    }

    private static void listen(CountDownLatch closing) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            lines.readLine();
        } catch (Exception broken) {
            say("exception", broken.toString());
        }
        closing.countDown();
    }

    private static synchronized void say(String what, String rest) {
        System.out.println(System.currentTimeMillis() + " " + what + " " + rest);
    }
}
