import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * A group member that obeys orders from its input, a word and arguments per line, and prints the events of its
 * listener: milliseconds since the epoch, a word, and details. Its command line arguments are topics, separated by
 * commas, and consumer settings.
 */
public class Member {
    private static final BlockingQueue<String[]> ORDERS = new LinkedBlockingQueue<>();
    private static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        for (String setting : Arrays.copyOfRange(arguments, 1, arguments.length)) {
            String[] parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        bootstrap = settings.getProperty("bootstrap.servers");
        Thread listening = new Thread(Member::listen);
        listening.setDaemon(true);
        listening.start();
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        Listener listener = new Listener();
        consumer.subscribe(List.of(arguments[0].split(",")), listener);
        say("start", "");
        try {
            String[] order = null;
            while (order == null || obey(consumer, listener, order)) {
                consumer.poll(Duration.ofMillis(200));
                order = ORDERS.poll();
            }
        } catch (KafkaException fatal) {
            say("exception", fatal.toString());
        }
        say("closing", "");
        consumer.close();
        say("closed", "");
    }

    private static boolean obey(KafkaConsumer<String, String> consumer, Listener listener, String[] order) throws Exception {
        switch (order[0]) {
            case "subscribe" -> {
                say("subscribe", order[1]);
                consumer.subscribe(List.of(order[1].split(",")), listener);
            }
            case "rejoin" -> {
                say("rejoin", order[1]);
                consumer.enforceRebalance(order[1]);
            }
            case "remove" -> remove(consumer.groupMetadata().groupId(), order[1]);
            case "stuck" -> listener.stuck = Long.parseLong(order[1]);
            case "slow" -> {
                beSlow("slow", Long.parseLong(order[1]));
            }
            default -> {
                return false;
            }
        }
        return true;
    }

    private static void beSlow(String how, long milliseconds) {
        say(how + "-begin", Long.toString(milliseconds));
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException impossible) {
            throw new IllegalStateException(impossible);
        }
        say(how + "-end", "");
    }

    /** Removes a static member with a separate admin client. */
    private static void remove(String group, String instance) throws Exception {
        say("remove", instance);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "client.id", "admin"))) {
            List<MemberToRemove> members = List.of(new MemberToRemove(instance));
            admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(members)).all().get();
        }
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

    private static class Listener implements ConsumerRebalanceListener {
        /** Milliseconds that the next release of partitions takes. */
        private long stuck = 0;

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say("assigned", partitions.toString());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (stuck > 0) {
                beSlow("stuck", stuck);
                stuck = 0;
            }
            say("revoked", partitions.toString());
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            say("lost", partitions.toString());
        }
    }
}
