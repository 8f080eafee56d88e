import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push consumers: ordered, balanced, broadcasting, filtering, in a namespace, reset. */
final class PushScenarios {
    private static final int SETTLE_MS = 500;

    private final Clients clients;

    PushScenarios(Clients clients) {
        this.clients = clients;
    }

    private static MessageListenerConcurrently into(java.util.Collection<String> keys) {
        return (messages, context) -> {
            for (MessageExt message : messages) {
                keys.add(message.getKeys());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    /** How many queues of the topic a consumer has taken. */
    private static int queues(DefaultMQPushConsumer consumer, String topic) {
        int count = 0;
        for (MessageQueue queue
            : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
            count += queue.getTopic().equals(topic) ? 1 : 0;
        }
        return count;
    }

    private static String balance(String topic, int[] wanted, DefaultMQPushConsumer... consumers) throws Exception {
        List<Integer> counts = new ArrayList<>();
        List<Integer> expected = new ArrayList<>();
        for (int count : wanted) {
            expected.add(count);
        }
        Clients.eventually(() -> {
            counts.clear();
            for (DefaultMQPushConsumer consumer : consumers) {
                counts.add(queues(consumer, topic));
            }
            Collections.sort(counts);
            return counts.equals(expected);
        });
        return counts.toString();
    }

    void ordered(List<String> answer) throws Exception {
        String topic = clients.name("ordered");
        Map<String, List<Integer>> seen = new ConcurrentHashMap<>();
        Set<String> members = ConcurrentHashMap.newKeySet();
        ConcurrentLinkedQueue<String> all = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer[] consumers = new DefaultMQPushConsumer[2];
        for (int number = 0; number < 2; number++) {
            String member = "member-" + number;
            consumers[number] = clients.pushConsumer(clients.name("ordered-group"));
            consumers[number].subscribe(topic, "*");
            consumers[number].registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                for (MessageExt message : messages) {
                    seen.computeIfAbsent(message.getTags(), tag -> new CopyOnWriteArrayList<>())
                        .add(Integer.parseInt(new String(message.getBody())));
                    members.add(member);
                    all.add(message.getKeys());
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
            consumers[number].start();
        }
        answer.add("balance " + balance(topic, new int[] {2, 2}, consumers));
        TreeMap<Integer, Integer> chosen = new TreeMap<>();
        for (int number = 0; number < 60; number++) {
            Message message = Clients.message(topic, "Order" + number % 6, "o-" + number, "" + number);
            int queue = clients.producer().send(message,
                (queues, sent, argument) -> queues.get((Integer) argument % queues.size()), number % 6)
                .getMessageQueue().getQueueId();
            chosen.merge(queue, 1, Integer::sum);
        }
        answer.add("chosen " + chosen);
        Clients.eventually(() -> all.size() >= 60);
        answer.add("received " + new TreeSet<>(all).size() + " of " + all.size() + " by " + members.size());
        for (String order : new TreeSet<>(seen.keySet())) {
            answer.add(order + " " + seen.get(order));
        }
    }

    void rebalance(List<String> answer) throws Exception {
        String topic = clients.name("rebalance");
        Set<String> keys = ConcurrentHashMap.newKeySet();
        List<DefaultMQPushConsumer> made = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            DefaultMQPushConsumer consumer = clients.pushConsumer(clients.name("rebalance-group"));
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener(into(keys));
            made.add(consumer);
        }
        DefaultMQPushConsumer first = made.get(0), second = made.get(1), third = made.get(2);
        first.start();
        answer.add("one " + balance(topic, new int[] {8}, first));
        produce(topic, "one", 20);
        second.start();
        answer.add("two " + balance(topic, new int[] {4, 4}, first, second));
        produce(topic, "two", 20);
        third.start();
        answer.add("three " + balance(topic, new int[] {2, 3, 3}, first, second, third));
        produce(topic, "three", 20);
        third.shutdown();
        answer.add("one left " + balance(topic, new int[] {4, 4}, first, second));
        produce(topic, "left", 20);
        // What a killed process does: its connections end and nothing was said before.
        second.getDefaultMQPushConsumerImpl().getmQClientFactory().getMQClientAPIImpl().getRemotingClient().shutdown();
        answer.add("one killed " + balance(topic, new int[] {8}, first));
        produce(topic, "killed", 20);
        Clients.eventually(() -> keys.size() >= 100);
        answer.add("received " + keys.size());
    }

    private void produce(String topic, String mark, int count) throws Exception {
        for (int number = 0; number < count; number++) {
            clients.producer().send(Clients.message(topic, "", mark + "-" + number, "x"));
        }
    }

    void broadcast(List<String> answer) throws Exception {
        String topic = clients.name("broadcast");
        List<ConcurrentLinkedQueue<String>> got = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            ConcurrentLinkedQueue<String> keys = new ConcurrentLinkedQueue<>();
            DefaultMQPushConsumer consumer = clients.pushConsumer(clients.name("broadcast-group"));
            Clients.setMessageModel(consumer, "BROADCASTING");
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener(into(keys));
            consumer.start();
            answer.add("balance " + balance(topic, new int[] {4}, consumer));
            got.add(keys);
        }
        produce(topic, "b", 10);
        for (ConcurrentLinkedQueue<String> keys : got) {
            Clients.eventually(() -> keys.size() >= 10);
            answer.add("received " + new TreeSet<>(keys) + " of " + keys.size());
        }
    }

    void filter(List<String> answer) throws Exception {
        String topic = clients.name("filter");
        for (int number = 0; number < 20; number++) {
            String tag = new String[] {"TagA", "TagB", "TagC", ""}[number % 4];
            Message message = Clients.message(topic, tag, String.format("f-%02d", number), "f");
            message.putUserProperty("n", "" + number);
            message.putUserProperty("even", "" + (number % 2 == 0));
            clients.producer().send(message);
        }
        filtered(answer, topic, "one-tag", MessageSelector.byTag("TagA"), 5);
        filtered(answer, topic, "two-tags", MessageSelector.byTag("TagA || TagC"), 10);
        filtered(answer, topic, "sql", MessageSelector.bySql("n BETWEEN 3 AND 7 OR TAGS = 'TagB'"), 9);
        filtered(answer, topic, "sql-text", MessageSelector.bySql("even = TRUE AND n NOT IN ('2', '4')"), 8);
        filtered(answer, topic, "sql-broken", MessageSelector.bySql("n >>> 3"), 0);
    }

    private void filtered(List<String> answer, String topic, String name, MessageSelector selector, int count)
        throws Exception {
        ConcurrentLinkedQueue<String> keys = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = clients.pushConsumer(clients.name(name));
        consumer.subscribe(topic, selector);
        consumer.registerMessageListener(into(keys));
        String started = Clients.attempted(() -> {
            consumer.start();
            return "started";
        });
        if (started.equals("started")) {
            Clients.eventually(() -> keys.size() >= count);
            Thread.sleep(SETTLE_MS);  // would anything come that should not?
        }
        answer.add(name + " " + started + " " + new TreeSet<>(keys) + " of " + keys.size());
    }

    @SuppressWarnings("deprecation")
    void namespace(List<String> answer) throws Exception {
        String topic = clients.name("namespace");
        DefaultMQProducer producer = clients.newProducer(clients.name("space-producer"));
        producer.setNamespace("SPACE");
        producer.start();
        clients.onClose(producer::shutdown);
        answer.add("send " + producer.send(Clients.message(topic, "T", "n-0", "in the namespace")).getSendStatus());
        answer.add("queue " + producer.send(Clients.message(topic, "T", "n-1", "again")).getMessageQueue().getTopic());
        ConcurrentLinkedQueue<String> inside = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = clients.pushConsumer(clients.name("space-group"));
        consumer.setNamespace("SPACE");
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                inside.add(message.getKeys() + " " + message.getTopic() + " " + new String(message.getBody()));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Clients.eventually(() -> inside.size() >= 2);
        answer.add("received " + new TreeSet<>(inside));
        ConcurrentLinkedQueue<String> outside = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer stranger = clients.pushConsumer(clients.name("space-stranger"));
        stranger.subscribe("SPACE%" + topic, "*");
        stranger.registerMessageListener(into(outside));
        stranger.start();
        Clients.eventually(() -> outside.size() >= 2);
        answer.add("by its full name " + new TreeSet<>(outside));
    }

    void reset(List<String> answer) throws Exception {
        String topic = clients.name("reset");
        String group = clients.name("reset-group");
        produce(topic, "r", 10);
        ConcurrentLinkedQueue<String> keys = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = clients.pushConsumer(group);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(into(keys));
        consumer.start();
        Clients.eventually(() -> keys.size() >= 10);
        answer.add("received " + new TreeSet<>(keys).size());
        answer.add("balance " + balance(topic, new int[] {4}, consumer));
        String address = address(consumer, topic);
        Thread.sleep(2 * SETTLE_MS);  // offsets are committed every half second
        Map<MessageQueue, Long> offsets = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory()
            .getMQClientAPIImpl().invokeBrokerToResetOffset(address, topic, group, 0, true, 10_000);
        TreeMap<Integer, Long> shown = new TreeMap<>();
        offsets.forEach((queue, offset) -> shown.put(queue.getQueueId(), offset));
        answer.add("reset to " + shown);
        produce(topic, "s", 4);  // wakes pulls that wait at the end
        Clients.eventually(() -> keys.size() >= 24);
        answer.add("received again " + new TreeSet<>(keys).size());
    }

    private static String address(DefaultMQPushConsumer consumer, String topic) throws Exception {
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        return consumer.getDefaultMQPushConsumerImpl().getmQClientFactory()
            .findBrokerAddressInPublish(queues.iterator().next().getBrokerName());
    }
}
