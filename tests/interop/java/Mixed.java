import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The official half of a group that has members of two languages: Mixed NAMESRV ROLE GROUP TOPIC.
 * Roles: concurrent and orderly print what they get; produce sends messages of every kind; leave
 * sends half messages and ends without a word; answer tells brokers how transactions ended. All but
 * produce and leave go on until their input ends.
 */
public final class Mixed {
    private static final int POLL_MS = 50;
    private static final int TRACE_PATIENCE_MS = 40_000;

    public static void main(String[] arguments) throws Exception {
        String nameServer = arguments[0], role = arguments[1], group = arguments[2], topic = arguments[3];
        switch (role) {
            case "concurrent": case "orderly": consume(nameServer, group, topic, role.equals("orderly")); break;
            case "produce": produce(nameServer, group, topic); break;
            case "leave": case "answer": transact(nameServer, group, topic, role.equals("leave")); break;
            default: throw new IllegalArgumentException(role);
        }
        System.out.println("done");
        Runtime.getRuntime().halt(0);
    }

    private static void consume(String nameServer, String group, String topic, boolean isOrderly) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        // A 5.x client whose first heartbeat came too late gets nothing before the next one.
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPollNameServerInterval(1_000);
        consumer.subscribe(topic, "*");
        if (isOrderly) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                print(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                print(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        System.out.println("ready");
        Thread watch = new Thread(() -> tellShare(consumer, topic));
        watch.setDaemon(true);
        watch.start();
        while (System.in.read() >= 0) { }
        consumer.shutdown();
    }

    /** Says how many queues of the topic the consumer has, whenever that has changed. */
    private static void tellShare(DefaultMQPushConsumer consumer, String topic) {
        int told = -1;
        try {
            while (true) {
                int share = 0;
                for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
                    .getProcessQueueTable().keySet()) {
                    share += queue.getTopic().equals(topic) ? 1 : 0;
                }
                if (share != told) {
                    System.out.println("share " + share);
                    told = share;
                }
                Thread.sleep(POLL_MS);
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static synchronized void print(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            CRC32 sum = new CRC32();
            sum.update(message.getBody());
            System.out.println("got " + message.getQueueId() + " " + message.getKeys() + " " + message.getTags()
                + " " + message.getBody().length + " " + sum.getValue());
        }
        System.out.flush();
    }

    private static void produce(String nameServer, String group, String topic) throws Exception {
        // The second argument: with a trace, to the topic that is named like this one.
        DefaultMQProducer producer = new DefaultMQProducer(group, true, topic + "-trace");
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        char[] large = new char[100_000];
        Arrays.fill(large, 'x');
        String broker = producer.send(new Message(topic, "plain", "java-plain", "plain".getBytes()))
            .getMessageQueue().getBrokerName();
        producer.send(new Message(topic, "compressed", "java-compressed", new String(large).getBytes()));
        List<Message> batch = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            batch.add(new Message(topic, "batch", "java-batch-" + number, ("b" + number).getBytes()));
        }
        producer.send(batch);
        MessageQueue traces = new MessageQueue(topic + "-trace", broker, 0);
        long deadline = System.currentTimeMillis() + TRACE_PATIENCE_MS;
        while (producer.maxOffset(traces) == 0 && System.currentTimeMillis() < deadline) {
            Thread.sleep(POLL_MS); // traces leave later, and the client does not say when
        }
        producer.shutdown();
    }

    private static void transact(String nameServer, String group, String topic, boolean isLeaving) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(10_000);
        producer.setHeartbeatBrokerInterval(1_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String body = new String(message.getBody());
                System.out.println("asked " + body);
                System.out.flush();
                return body.endsWith("kept")
                    ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.start();
        if (isLeaving) {
            for (String body : new String[] {"java-kept", "java-dropped"}) {
                producer.sendMessageInTransaction(new Message(topic, "half", body, body.getBytes()), null);
            }
            return;
        }
        producer.send(new Message(topic, "hello", "java-hello", "java-hello".getBytes()));
        System.out.println("ready");
        while (System.in.read() >= 0) { }
        producer.shutdown();
    }
}
