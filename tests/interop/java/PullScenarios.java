import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Pull and lite-pull consumers. */
final class PullScenarios {
    private final Clients clients;

    PullScenarios(Clients clients) {
        this.clients = clients;
    }

    private static String shown(PullResult result) {
        int found = result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
        return result.getPullStatus() + " next " + result.getNextBeginOffset() + " min " + result.getMinOffset()
            + " max " + result.getMaxOffset() + " found " + found;
    }

    void pull(List<String> answer) throws Exception {
        String topic = clients.name("pull");
        DefaultMQPullConsumer consumer = clients.pullConsumer(clients.name("pull-group"));
        List<MessageQueue> queues = new ArrayList<>(consumer.fetchSubscribeMessageQueues(topic));
        Collections.sort(queues);
        answer.add("queues " + queues.size());
        MessageQueue queue = queues.get(0);
        answer.add("empty " + shown(consumer.pull(queue, "*", 0, 32)));
        answer.add("earliest of an empty queue " + consumer.earliestMsgStoreTime(queue));
        for (int number = 0; number < 10; number++) {
            clients.producer().send(Clients.message(topic, "T" + number % 2, "p-" + number, "p" + number), queue);
        }
        Clients.eventually(() -> consumer.maxOffset(queue) == 10);
        answer.add("all " + shown(consumer.pull(queue, "*", 0, 32)));
        answer.add("three " + shown(consumer.pull(queue, "*", 4, 3)));
        answer.add("tag " + shown(consumer.pull(queue, "T1", 0, 32)));
        answer.add("no such tag " + shown(consumer.pull(queue, "T9", 0, 32)));
        answer.add("at the end " + shown(consumer.pull(queue, "*", 10, 32)));
        answer.add("past the end " + shown(consumer.pull(queue, "*", 99, 32)));
        answer.add("max " + consumer.maxOffset(queue) + " min " + consumer.minOffset(queue));
        answer.add("by time " + consumer.searchOffset(queue, 0) + " "
            + consumer.searchOffset(queue, System.currentTimeMillis() + 60_000));
        answer.add("earliest " + (consumer.earliestMsgStoreTime(queue) > 1_700_000_000_000L));
        answer.add("committed before " + consumer.fetchConsumeOffset(queues.get(1), true));
        consumer.updateConsumeOffset(queue, 7);
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persistAll(Collections.singleton(queue));
        Clients.eventually(() -> consumer.fetchConsumeOffset(queue, true) == 7);
        answer.add("committed " + consumer.fetchConsumeOffset(queue, true));
        Thread sender = new Thread(() -> Clients.attempted(() -> {
            Thread.sleep(700);
            return "" + clients.producer().send(Clients.message(topic, "Late", "p-late", "late"), queue);
        }));
        sender.start();
        answer.add("waited for " + shown(consumer.pullBlockIfNotFound(queue, "*", 10, 32)));
        sender.join();
        consumer.sendMessageBack(consumer.pull(queue, "*", 0, 1).getMsgFoundList().get(0), 1);
        MessageQueue retry = new MessageQueue("%RETRY%" + clients.name("pull-group"), queue.getBrokerName(), 0);
        Clients.eventually(() -> consumer.maxOffset(retry) == 1);
        MessageExt again = consumer.pull(retry, "*", 0, 1).getMsgFoundList().get(0);
        answer.add("sent back " + again.getKeys() + " times " + again.getReconsumeTimes());
    }

    void lite(List<String> answer) throws Exception {
        String topic = clients.name("lite");
        for (int number = 0; number < 20; number++) {
            clients.producer().send(Clients.message(topic, "T", String.format("l-%02d", number), "l"));
        }
        DefaultLitePullConsumer assigned = clients.litePullConsumer(clients.name("lite-assigned"));
        assigned.start();
        List<MessageQueue> queues = new ArrayList<>(assigned.fetchMessageQueues(topic));
        Collections.sort(queues);
        assigned.assign(queues);
        for (MessageQueue queue : queues) {
            assigned.seekToBegin(queue);
        }
        answer.add("assigned " + polled(assigned, 20));
        assigned.commitSync();
        answer.add("committed " + committed(assigned, queues));
        answer.add("known to the broker " + toldUntilKept(assigned, queues));
        assigned.seek(queues.get(1), 2);
        answer.add("after seek " + polled(assigned, 3).size());
        assigned.seekToEnd(queues.get(2));
        clients.producer().send(Clients.message(topic, "T", "l-last", "l"), queues.get(2));
        answer.add("after seek to the end " + polled(assigned, 1));
        answer.add("by time " + assigned.offsetForTimestamp(queues.get(0), 0L));
        answer.add("illegal seek " + Clients.attempted(() -> {
            assigned.seek(queues.get(0), 999);
            return "taken";
        }));
        DefaultLitePullConsumer subscribed = clients.litePullConsumer(clients.name("lite-subscribed"));
        subscribed.subscribe(topic, "*");
        subscribed.start();
        answer.add("subscribed " + polled(subscribed, 21).size());
        subscribed.commitSync();
        answer.add("committed by subscription " + committed(subscribed, queues));
        answer.add("known to the broker " + toldUntilKept(subscribed, queues));
        subscribed.shutdown();
        DefaultLitePullConsumer successor = clients.litePullConsumer(clients.name("lite-subscribed"));
        successor.subscribe(topic, "*");
        successor.start();
        clients.producer().send(Clients.message(topic, "T", "l-next", "l"), queues.get(3));
        answer.add("successor " + polled(successor, 1));
    }

    private static String committed(DefaultLitePullConsumer consumer, Collection<MessageQueue> queues)
        throws Exception {
        TreeMap<Integer, Long> offsets = new TreeMap<>();
        for (MessageQueue queue : queues) {
            offsets.put(queue.getQueueId(), consumer.committed(queue));
        }
        return offsets.toString();
    }

    /**
     * A commit stays in the client until its timer or its end tells the broker, of all queues at once; and of a
     * group's first offsets that come at once official brokers lose some. So they are told again until the broker
     * has them all; with a commit before, as a client that asks for an offset that was lost takes 0 for its own.
     */
    private static String toldUntilKept(DefaultLitePullConsumer consumer, Collection<MessageQueue> queues)
        throws Exception {
        OffsetStore offsets = consumer.getOffsetStore();
        TreeMap<Integer, Long> kept = new TreeMap<>();
        String committed = committed(consumer, queues);
        Clients.eventually(() -> {
            consumer.commitSync();
            offsets.persistAll(new HashSet<>(queues));
            for (MessageQueue queue : queues) {
                kept.put(queue.getQueueId(), offsets.readOffset(queue, ReadOffsetType.READ_FROM_STORE));
            }
            return kept.toString().equals(committed);
        });
        return kept.toString();
    }

    private static TreeSet<String> polled(DefaultLitePullConsumer consumer, int count) throws Exception {
        TreeSet<String> keys = new TreeSet<>();
        Clients.eventually(() -> {
            for (MessageExt message : consumer.poll(200)) {
                keys.add(message.getKeys());
            }
            return keys.size() >= count;
        });
        return keys;
    }
}
