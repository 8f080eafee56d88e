import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Delay levels, times of a message's own, and taking such a message back. */
final class TimedScenarios {
    private static final int LEVELS = 4;
    // Taking a message back must be quicker than this, and what should not come would come before.
    private static final int RECALLED_MS = 6000;
    private static final int LATE_MS = 6500;

    private final Clients clients;

    TimedScenarios(Clients clients) {
        this.clients = clients;
    }

    void later(List<String> answer) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = clients.name("later");
        for (int level = 1; level <= LEVELS; level++) {
            Message message = Clients.message(topic, "Level", "level-" + level, "1000");
            message.setDelayTimeLevel(level);
            answer.add("level " + level + " " + told(producer.send(message)));
        }
        answer.add("milliseconds " + told(producer.send(timed(topic, "TIMER_DELAY_MS", "setDelayTimeMs", 700, 700))));
        answer.add("seconds " + told(producer.send(timed(topic, "TIMER_DELAY_SEC", "setDelayTimeSec", 1, 1000))));
        long soon = System.currentTimeMillis() + 1300;
        answer.add("moment " + told(producer.send(timed(topic, "TIMER_DELIVER_MS", "setDeliverTimeMs", soon, 1))));
        answer.add("over " + told(producer.send(timed(topic, "TIMER_DELIVER_MS", "setDeliverTimeMs", 1000, 0))));
        answer.add("too far " + Clients.attempted(
            () -> told(producer.send(timed(topic, "TIMER_DELAY_SEC", "setDelayTimeSec", 999_999, 0)))));
        recall(answer, producer, topic);
        producer.send(timed(topic, "TIMER_DELAY_MS", "setDelayTimeMs", LATE_MS, LATE_MS));
        List<MessageExt> found = stored(topic, LEVELS + 5);
        boolean early = false;
        List<String> lines = new ArrayList<>();
        for (MessageExt message : found) {
            early |= message.getStoreTimestamp() - message.getBornTimestamp() < Long.parseLong(new String(message.getBody()));
            lines.add(message.getKeys() + " " + new TreeSet<>(message.getProperties().keySet()));
        }
        Collections.sort(lines);
        answer.addAll(lines);
        answer.add("none early " + !early);
    }

    private static String told(SendResult result) throws Exception {
        return result.getSendStatus() + (handleOf(result) == null ? "" : " with a handle");
    }

    /** Only 5.x clients have these methods; the body says how long it has to wait. */
    private static Message timed(String topic, String property, String method, long value, long wait) throws Exception {
        Message message = Clients.message(topic, "Timed", method + "-" + wait, String.valueOf(wait));
        for (Method each : Message.class.getMethods()) {
            if (each.getName().equals(method)) {
                each.invoke(message, value);
                return message;
            }
        }
        message.putUserProperty(property, String.valueOf(value));
        return message;
    }

    private static String handleOf(SendResult result) throws Exception {
        for (Method each : SendResult.class.getMethods()) {
            if (each.getName().equals("getRecallHandle")) {
                return (String) each.invoke(result);
            }
        }
        return null;
    }

    private static void recall(List<String> answer, DefaultMQProducer producer, String topic) throws Exception {
        for (Method each : DefaultMQProducer.class.getMethods()) {
            if (each.getName().equals("recallMessage")) {
                SendResult result = producer.send(timed(topic, "TIMER_DELAY_MS", "setDelayTimeMs", RECALLED_MS, RECALLED_MS));
                String handle = handleOf(result);
                answer.add("recalled " + result.getMsgId().equals(each.invoke(producer, topic, handle)));
                answer.add("recalled by nonsense " + Clients.attempted(() -> {
                    try {
                        return String.valueOf(each.invoke(producer, topic, "nonsense"));
                    } catch (InvocationTargetException error) {
                        return Clients.failure(error.getCause());
                    }
                }));
            }
        }
    }

    private List<MessageExt> stored(String topic, int count) throws Exception {
        DefaultMQPullConsumer consumer = clients.pullConsumer(clients.name("later-reader"));
        List<MessageExt> found = new ArrayList<>();
        Clients.eventually(() -> {
            found.clear();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
                PullResult result = consumer.pull(queue, "*", 0, 32);
                if (result.getPullStatus() == PullStatus.FOUND) {
                    found.addAll(result.getMsgFoundList());
                }
            }
            return found.size() >= count;
        });
        return found;
    }
}
