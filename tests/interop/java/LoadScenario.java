import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Senders and an orderly consumer that go on whatever happens to the broker. */
final class LoadScenario {
    private static final int SENDERS = 4;

    private final Clients clients;
    private final AtomicBoolean isRunning = new AtomicBoolean();
    private final AtomicInteger failures = new AtomicInteger();
    /** Queue and number of every acknowledged message; 1 when it was received. */
    private final Map<String, Integer> acknowledged = new ConcurrentHashMap<>();
    private final Map<String, Integer> received = new ConcurrentHashMap<>();
    /** The numbers of a queue as they came for the first time. */
    private final Map<Integer, List<Integer>> order = new ConcurrentHashMap<>();
    private final Thread[] senders = new Thread[SENDERS];
    private DefaultMQProducer producer;
    private DefaultMQPushConsumer consumer;

    LoadScenario(Clients clients) {
        this.clients = clients;
    }

    void start(List<String> answer) throws Exception {
        String topic = clients.name("load");
        producer = clients.newProducer(clients.name("load-producer"));
        producer.setSendMsgTimeout(2_000);
        producer.setPollNameServerInterval(1_000);
        producer.start();
        consumer = new DefaultMQPushConsumer(clients.name("load-group"));
        consumer.setNamesrvAddr(clients.nameServer);
        consumer.setInstanceName(clients.instanceName());
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPollNameServerInterval(1_000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(this::receive);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        isRunning.set(true);
        for (int sender = 0; sender < SENDERS; sender++) {
            int queueId = sender;
            senders[sender] = new Thread(() -> send(topic, queueId));
            senders[sender].start();
        }
        answer.add("started");
    }

    /** One sender per queue: what it sends next is newer than all that it sent before. */
    private void send(String topic, int queueId) {
        for (int number = 0; isRunning.get(); number++) {
            String key = queueId + "-" + number;
            try {
                SendResult result = producer.send(Clients.message(topic, "", key, "" + number),
                    (queues, message, argument) -> queues.get(queueId), null);
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    acknowledged.put(key, 1);
                }
                Thread.sleep(2);
            } catch (InterruptedException ended) {
                return;
            } catch (Exception error) {
                failures.incrementAndGet();
                Clients.attempted(() -> {
                    Thread.sleep(100);
                    return "";
                });
            }
        }
    }

    private void receive(MessageExt message) {
        int number = Integer.parseInt(new String(message.getBody()));
        boolean isFirst = received.merge(message.getKeys(), 1, Integer::sum) == 1;
        if (isFirst) {
            order.computeIfAbsent(message.getQueueId(), queueId -> new CopyOnWriteArrayList<>()).add(number);
        }
    }

    /** What was never acknowledged may have been stored late, after what was sent next. */
    private long disorder() {
        long count = 0;
        for (Map.Entry<Integer, List<Integer>> queue : order.entrySet()) {
            int newest = -1;
            for (int number : queue.getValue()) {
                if (acknowledged.containsKey(queue.getKey() + "-" + number)) {
                    count += number < newest ? 1 : 0;
                    newest = number;
                }
            }
        }
        return count;
    }

    void progress(List<String> answer) {
        answer.add(acknowledged.size() + " " + received.size() + " " + failures.get());
    }

    void stop(List<String> answer) throws Exception {
        isRunning.set(false);
        for (Thread sender : senders) {
            sender.join();
        }
        Clients.eventually(() -> received.keySet().containsAll(acknowledged.keySet()));
        long lost = acknowledged.keySet().stream().filter(key -> !received.containsKey(key)).count();
        answer.add("lost " + lost);
        answer.add("out of order " + disorder());
        answer.add("queues " + new TreeMap<>(order).keySet());
        producer.shutdown();
        consumer.shutdown();
    }
}
