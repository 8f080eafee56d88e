import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Writes messages of every kind and reads everything back by queue, key, id and time:
 * StoreShell NAMESRV BROKER. One command per input line, words separated by tabs and
 * URL-encoded; the answer is a line with the number of output lines, then those lines.
 */
public final class StoreShell {
    private static final String GROUP = "store-shell";
    private static final int RETRY_MS = 100;
    private static final int PATIENCE_MS = 40_000;
    private static final int PULL_COUNT = 32;

    private final String brokerName;
    private final DefaultMQProducer producer = new DefaultMQProducer(GROUP + "-producer");
    private final TransactionMQProducer transactions = new TransactionMQProducer(GROUP + "-transactions");
    private final DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(GROUP);

    private StoreShell(String nameServer, String brokerName) throws Exception {
        this.brokerName = brokerName;
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        transactions.setNamesrvAddr(nameServer);
        transactions.setSendMsgTimeout(10_000);
        transactions.setTransactionListener(new DecidesByTag());
        transactions.start();
        consumer.setNamesrvAddr(nameServer);
        consumer.start();
    }

    public static void main(String[] arguments) throws Exception {
        StoreShell shell = new StoreShell(arguments[0], arguments[1]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        System.out.println("ready");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            List<String> words = new ArrayList<>();
            for (String word : line.split("\t", -1)) {
                words.add(URLDecoder.decode(word, "UTF-8"));
            }
            List<String> answer = shell.run(words);
            System.out.println("answer " + answer.size());
            answer.forEach(System.out::println);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private List<String> run(List<String> words) {
        try {
            String topic = words.get(1);
            List<String> rest = words.subList(2, words.size());
            switch (words.get(0)) {
                case "send": return send(topic, rest.get(0), Integer.parseInt(rest.get(1)));
                case "pull": return pull(topic, Integer.parseInt(rest.get(0)));
                case "find": return find(topic, rest);
                case "view": return view(topic, rest);
                case "time": return time(topic, Integer.parseInt(rest.get(0)), rest.subList(1, rest.size()));
                default: throw new IllegalArgumentException(words.get(0));
            }
        } catch (Exception error) {
            error.printStackTrace();
            return List.of("failed " + error);
        }
    }

    // Sending

    /** Rounds of one message of each kind; one line per message with its unique and offset id. */
    private List<String> send(String topic, String mark, int rounds) throws Exception {
        List<String> lines = new ArrayList<>();
        for (int round = 0; round < rounds; round++) {
            String name = mark + "-" + round;
            for (Message message : singles(topic, name, round)) {
                SendResult result = patiently(() -> producer.send(message));
                lines.add(sent(result));
            }
            List<Message> batch = new ArrayList<>();
            for (int number = 0; number < 5; number++) {
                batch.add(new Message(topic, "Batch", name + "-batch-" + number + " " + name, bytes("b" + number)));
            }
            lines.add(sent(patiently(() -> producer.send(batch))));
        }
        Message soon = new Message(topic, "Soon", mark + "-soon", bytes("delivered after a second"));
        soon.setDelayTimeLevel(1);
        lines.add(sent(patiently(() -> producer.send(soon))));
        Message later = new Message(topic, "Later", mark + "-later", bytes("delivered after two hours"));
        later.setDelayTimeLevel(18);
        lines.add(sent(patiently(() -> producer.send(later))));
        for (String decision : List.of("Commit", "Rollback")) {
            Message half = new Message(topic, decision, mark + "-" + decision, bytes("half"));
            lines.add(sent(patiently(() -> transactions.sendMessageInTransaction(half, null))));
        }
        return lines;
    }

    private static List<Message> singles(String topic, String name, int round) throws Exception {
        Message plain = new Message(topic, bytes("plain " + name));
        Message tagged = new Message(topic, "Tag" + round % 3, bytes("tagged " + name));
        Message keyed = new Message(topic, "Tag" + round % 3, name + "  first-" + name + " polygenelubricants ",
            bytes("keyed " + name));
        keyed.setFlag(round);
        Message foreign = new Message(topic, "Käse-\uD83E\uDDC0", "schlüssel-" + name + " 鍵-\uD834\uDD1E-" + name,
            bytes("Grüße, 世界 \uD83D\uDE00 " + name));
        foreign.putUserProperty("größe", "naïve – \uD83D\uDE00");
        Message compressed = new Message(topic, "Zip", name + "-zip", bytes(("compress me " + name).repeat(400)));
        byte[] noise = new byte[40_000];
        new Random(name.hashCode()).nextBytes(noise);
        Message large = new Message(topic, "Noise", name + "-noise", noise);
        Message wide = new Message(topic, "Wide", name + "-wide", bytes("wide " + name));
        // Room is left for what client and broker add: 5.5 counts it towards 32,767 bytes.
        wide.putUserProperty("wide", "w".repeat(20_000) + "ä".repeat(6_100));
        wide.putUserProperty("separator", "a\u0001b");
        return List.of(plain, tagged, keyed, foreign, compressed, large, wide);
    }

    private static String sent(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.toString());
        }
        return result.getMsgId() + "\t" + result.getOffsetMsgId();
    }

    /** Tells the broker to commit or to roll back, as the message's tag says. */
    private static final class DecidesByTag implements TransactionListener {
        @Override public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return "Commit".equals(message.getTags())
                ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
        }

        @Override public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return executeLocalTransaction(message, null);
        }
    }

    // Reading

    /** All messages of a topic, queue by queue in order. */
    private List<String> pull(String topic, int queueCount) throws Exception {
        List<String> lines = new ArrayList<>();
        for (int id = 0; id < queueCount; id++) {
            MessageQueue queue = new MessageQueue(topic, brokerName, id);
            long end = patiently(() -> consumer.maxOffset(queue));
            long offset = patiently(() -> consumer.minOffset(queue));
            while (offset < end) {
                long from = offset;
                PullResult result = patiently(() -> consumer.pull(queue, "*", from, PULL_COUNT));
                if (result.getPullStatus() != PullStatus.FOUND) {
                    throw new IllegalStateException(queue + " at " + offset + ": " + result);
                }
                for (MessageExt message : result.getMsgFoundList()) {
                    lines.add(described(message));
                }
                offset = result.getNextBeginOffset();
            }
        }
        return lines;
    }

    /** One line per key with the log offsets of its messages. */
    private List<String> find(String topic, List<String> keys) throws Exception {
        List<String> lines = new ArrayList<>();
        for (String key : keys) {
            StringBuilder offsets = new StringBuilder();
            for (MessageExt message : found(topic, key)) {
                offsets.append(' ').append(message.getCommitLogOffset());
            }
            lines.add(offsets.toString().trim());
        }
        return lines;
    }

    private List<MessageExt> found(String topic, String key) throws Exception {
        long end = System.currentTimeMillis() + 60_000;
        try {
            return consumer.queryMessage(topic, key, 64, 0, end).getMessageList();
        } catch (org.apache.rocketmq.client.exception.MQClientException nothing) {
            return List.of();
        }
    }

    /** One line per offset id or unique key with the message that it leads to. */
    private List<String> view(String topic, List<String> ids) throws Exception {
        List<String> lines = new ArrayList<>();
        for (String id : ids) {
            lines.add(described(consumer.viewMessage(topic, id)));
        }
        return lines;
    }

    /** One line per time with the queue offset that it means. */
    private List<String> time(String topic, int queueId, List<String> times) throws Exception {
        List<String> lines = new ArrayList<>();
        for (String time : times) {
            lines.add("" + consumer.searchOffset(new MessageQueue(topic, brokerName, queueId), Long.parseLong(time)));
        }
        return lines;
    }

    private static String described(MessageExt message) throws Exception {
        if (message == null) {
            return "nothing";
        }
        Map<String, String> properties = new TreeMap<>();
        if (message.getProperties() != null) {
            properties.putAll(message.getProperties());
        }
        // What the client itself adds to every pulled message.
        properties.keySet().removeAll(Arrays.asList("MIN_OFFSET", "MAX_OFFSET"));
        StringBuilder text = new StringBuilder();
        properties.forEach((name, value) -> text.append(name).append('=').append(value).append('\n'));
        String offsetId = message instanceof MessageClientExt
            ? ((MessageClientExt) message).getOffsetMsgId() : message.getMsgId();
        return String.join("\t",
            "" + message.getQueueId(), "" + message.getQueueOffset(), "" + message.getCommitLogOffset(),
            offsetId, encoded(message.getMsgId()), "" + message.getBornTimestamp(),
            "" + message.getStoreTimestamp(), "" + message.getFlag(), "" + message.getReconsumeTimes(),
            encoded(message.getTags()), encoded(message.getKeys()), digest(message.getBody()),
            digest(bytes(text.toString())));
    }

    // Small things

    /** A broker that has just started is not known everywhere yet. */
    private static <T> T patiently(Callable<T> attempt) throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            try {
                return attempt.call();
            } catch (Exception error) {
                if (System.currentTimeMillis() > deadline) {
                    throw error;
                }
                Thread.sleep(RETRY_MS);
            }
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String encoded(String text) throws Exception {
        return text == null ? "" : URLEncoder.encode(text, "UTF-8");
    }

    private static String digest(byte[] content) throws Exception {
        StringBuilder hex = new StringBuilder();
        byte[] hash = MessageDigest.getInstance("SHA-256").digest(content == null ? new byte[0] : content);
        for (int index = 0; index < 12; index++) {
            hex.append(String.format("%02x", hash[index]));
        }
        return hex.toString();
    }
}
