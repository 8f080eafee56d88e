import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sending in every way, sizes, unknown topics, and finding messages again. */
final class SendScenarios {
    private static final int EACH = 8;
    private static final int LIMIT = 4 * 1024 * 1024;

    private final Clients clients;

    SendScenarios(Clients clients) {
        this.clients = clients;
    }

    void send(List<String> answer) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = clients.name("send");
        TreeMap<Integer, Integer> queues = new TreeMap<>();
        for (int number = 0; number < EACH; number++) {
            SendResult result = producer.send(Clients.message(topic, "Sync", "sync-" + number, "s" + number));
            queues.merge(result.getMessageQueue().getQueueId(), 1, Integer::sum);
            answer.add("sync " + result.getSendStatus() + " " + result.getRegionId() + " " + result.isTraceOn()
                + " id " + result.getMsgId().length() + " " + result.getOffsetMsgId().length());
        }
        answer.add("sync queues " + queues);
        answer.add("async " + sendAsync(producer, topic));
        for (int number = 0; number < EACH; number++) {
            producer.sendOneway(Clients.message(topic, "Oneway", "oneway-" + number, "o" + number));
        }
        List<Message> batch = new ArrayList<>();
        for (int number = 0; number < EACH; number++) {
            batch.add(Clients.message(topic, "Batch", "batch-" + number, "b" + number));
        }
        SendResult result = producer.send(batch);
        answer.add("batch " + result.getSendStatus() + " ids " + result.getMsgId().split(",").length
            + " " + result.getOffsetMsgId().split(",").length);
        MessageQueue queue = new MessageQueue(topic, result.getMessageQueue().getBrokerName(), 2);
        result = producer.send(Clients.message(topic, "Queue", "queue-0", "q0"), queue);
        answer.add("to a queue " + result.getSendStatus() + " " + result.getMessageQueue().getQueueId());
        result = producer.send(Clients.message(topic, "Selector", "selector-0", "s0"),
            (all, message, argument) -> all.get((Integer) argument % all.size()), 3);
        answer.add("by selector " + result.getSendStatus() + " " + result.getMessageQueue().getQueueId());
        Message delayed = Clients.message(topic, "Delayed", "delayed-0", "d0");
        delayed.setDelayTimeLevel(1);
        answer.add("delayed " + producer.send(delayed).getSendStatus());
        answer.addAll(stored(topic, 4 * EACH + 3));
    }

    private static String sendAsync(DefaultMQProducer producer, String topic) throws Exception {
        CountDownLatch done = new CountDownLatch(EACH);
        AtomicInteger ok = new AtomicInteger();
        for (int number = 0; number < EACH; number++) {
            producer.send(Clients.message(topic, "Async", "async-" + number, "a" + number), new SendCallback() {
                @Override public void onSuccess(SendResult result) {
                    if (result.getSendStatus() == SendStatus.SEND_OK) {
                        ok.incrementAndGet();
                    }
                    done.countDown();
                }

                @Override public void onException(Throwable error) {
                    done.countDown();
                }
            });
        }
        return done.await(Clients.PATIENCE_S, TimeUnit.SECONDS) ? "ok " + ok : "no answer";
    }

    /** Every message of a topic, when there are as many as wanted. */
    private List<String> stored(String topic, int count) throws Exception {
        DefaultMQPullConsumer consumer = clients.pullConsumer(clients.name("reader"));
        List<String> lines = new ArrayList<>();
        Clients.eventually(() -> {
            lines.clear();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
                long next = 0;
                PullResult result = consumer.pull(queue, "*", next, 32);
                while (result.getPullStatus() == PullStatus.FOUND) {
                    for (MessageExt message : result.getMsgFoundList()) {
                        lines.add(shown(message));
                    }
                    next = result.getNextBeginOffset();
                    result = consumer.pull(queue, "*", next, 32);
                }
            }
            return lines.size() >= count;
        });
        Collections.sort(lines);
        return lines;
    }

    private static String shown(MessageExt message) {
        TreeSet<String> names = new TreeSet<>(message.getProperties().keySet());
        return message.getKeys() + " " + message.getTags() + " " + new String(message.getBody()) + " flag "
            + message.getFlag() + " sysFlag " + message.getSysFlag() + " times " + message.getReconsumeTimes()
            + " " + names;
    }

    void sizes(List<String> answer) throws Exception {
        String topic = clients.name("sizes");
        DefaultMQProducer producer = clients.newProducer(clients.name("large-producer"));
        producer.setMaxMessageSize(4 * LIMIT);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        clients.onClose(producer::shutdown);
        for (int size : new int[] {0, 1, LIMIT, LIMIT + 1}) {
            byte[] body = new byte[size];
            new Random(size).nextBytes(body);
            answer.add(size + " bytes: " + Clients.attempted(
                () -> producer.send(new Message(topic, "", "size-" + size, body)).getSendStatus().toString()));
        }
        byte[] text = new byte[100_000];
        Arrays.fill(text, (byte) 'x');
        answer.add("compressed: " + clients.producer().send(new Message(topic, "", "size-text", text)).getSendStatus());
        Message wide = new Message(topic, "", "size-wide", "w".getBytes());
        char[] value = new char[33_000];
        Arrays.fill(value, 'w');
        wide.putUserProperty("wide", new String(value));
        answer.add("wide properties: " + Clients.attempted(() -> producer.send(wide).getSendStatus().toString()));
        DefaultMQPullConsumer consumer = clients.pullConsumer(clients.name("size-reader"));
        MessageQueue queue = consumer.fetchSubscribeMessageQueues(topic).iterator().next();
        long next = consumer.minOffset(queue);
        List<String> read = new ArrayList<>();
        PullResult result = consumer.pull(queue, "*", next, 32);
        while (result.getPullStatus() == PullStatus.FOUND) {
            for (MessageExt message : result.getMsgFoundList()) {
                read.add(message.getKeys() + " " + message.getBody().length + " " + Arrays.hashCode(message.getBody()));
            }
            result = consumer.pull(queue, "*", result.getNextBeginOffset(), 32);
        }
        answer.addAll(read);
    }

    void unknown(List<String> answer) throws Exception {
        String topic = clients.name("unknown");
        DefaultMQProducer producer = clients.newProducer(clients.name("stranger"));
        producer.setDefaultTopicQueueNums(3);
        producer.start();
        clients.onClose(producer::shutdown);
        answer.add("send: " + Clients.attempted(
            () -> producer.send(Clients.message(topic, "", "u", "u")).getSendStatus().toString()));
        answer.add("oneway: " + Clients.attempted(() -> {
            producer.sendOneway(Clients.message(topic, "", "u", "u"));
            return "sent";
        }));
        answer.add("queues: " + Clients.attempted(() -> {
            Clients.eventually(() -> Clients.attempted(
                () -> "" + producer.fetchPublishMessageQueues(topic).size()).length() == 1 || !isCreated(answer));
            return "" + producer.fetchPublishMessageQueues(topic).size();
        }));
        answer.add("bad name: " + Clients.attempted(
            () -> producer.send(Clients.message("bad.name", "", "u", "u")).getSendStatus().toString()));
        answer.add("system topic: " + Clients.attempted(() -> producer.send(
            Clients.message("SCHEDULE_TOPIC_XXXX", "", "u", "u")).getSendStatus().toString()));
    }

    private static boolean isCreated(List<String> answer) {
        return answer.get(0).endsWith("SEND_OK");
    }

    void query(List<String> answer) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = clients.name("query");
        long begin = System.currentTimeMillis() - 60_000;
        List<SendResult> sent = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
            sent.add(producer.send(Clients.message(topic, "Q", "common only-" + number, "body " + number)));
        }
        for (String key : List.of("common", "only-3")) {
            List<String> bodies = new ArrayList<>();
            Clients.eventually(() -> {
                bodies.clear();
                try {
                    QueryResult found = producer.queryMessage(topic, key, 32, begin, System.currentTimeMillis() + 60_000);
                    for (MessageExt message : found.getMessageList()) {
                        bodies.add(new String(message.getBody()));
                    }
                } catch (Exception notYet) {
                    return false;
                }
                return bodies.size() >= (key.equals("common") ? 5 : 1);
            });
            Collections.sort(bodies);
            answer.add("key " + key + " " + bodies);
        }
        answer.add("unknown key " + Clients.attempted(() -> "" + producer.queryMessage(
            topic, "nothing", 32, begin, System.currentTimeMillis() + 60_000).getMessageList().size()));
        MessageExt byOffset = producer.viewMessage(topic, sent.get(2).getOffsetMsgId());
        answer.add("offset id " + new String(byOffset.getBody()) + " " + byOffset.getTopic());
        MessageExt byUnique = producer.viewMessage(topic, sent.get(4).getMsgId());
        answer.add("unique id " + new String(byUnique.getBody()) + " " + byUnique.getTopic());
        String gone = sent.get(0).getOffsetMsgId().substring(0, 16) + "00000000FFFFFFF0";
        answer.add("unknown offset id " + Clients.attempted(() -> "" + producer.viewMessage(topic, gone)));
    }
}
