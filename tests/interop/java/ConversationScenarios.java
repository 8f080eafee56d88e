import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/** Transactions, requests and replies, and what a message's clients record of it. */
final class ConversationScenarios {
    private static final String TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC";
    private static final int EACH = 4;
    /** The first request may come before its consumer; later ones are only as slow as the machine. */
    private static final int FIRST_ANSWER_MS = 5_000;
    private static final int ANSWER_MS = 30_000;

    private final Clients clients;

    ConversationScenarios(Clients clients) {
        this.clients = clients;
    }

    void transaction(List<String> answer) throws Exception {
        String topic = clients.name("transaction");
        Map<String, Integer> checks = new ConcurrentHashMap<>();
        TransactionMQProducer producer = new TransactionMQProducer(clients.name("transaction-producer"));
        producer.setNamesrvAddr(clients.nameServer);
        producer.setInstanceName(clients.instanceName());
        producer.setTransactionListener(new TransactionListener() {
            @Override public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                if (argument.equals("throws")) {
                    throw new IllegalStateException("asked for");
                }
                return argument.equals("commit") ? LocalTransactionState.COMMIT_MESSAGE
                    : argument.equals("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE
                    : LocalTransactionState.UNKNOW;
            }

            @Override public LocalTransactionState checkLocalTransaction(MessageExt message) {
                if (message.getKeys().startsWith("commit") || message.getKeys().startsWith("rollback")) {
                    // 5.5.0 writes ends down after up to 3 s, and asks about them until then.
                    return message.getKeys().startsWith("commit") ? LocalTransactionState.COMMIT_MESSAGE
                        : LocalTransactionState.ROLLBACK_MESSAGE;
                }
                int times = checks.merge(message.getKeys(), 1, Integer::sum);
                if (message.getKeys().startsWith("later") && times < 2) {
                    return LocalTransactionState.UNKNOW;
                }
                return message.getKeys().startsWith("never") ? LocalTransactionState.ROLLBACK_MESSAGE
                    : LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        clients.onClose(producer::shutdown);
        TreeSet<String> seen = new TreeSet<>();
        consume(topic, clients.name("transaction-group"), seen, false);
        for (String kind : new String[] {"commit", "rollback", "later", "never", "throws"}) {
            for (int number = 0; number < EACH; number++) {
                Message message = Clients.message(topic, "Tag", kind + "-" + number, kind);
                TransactionSendResult result = producer.sendMessageInTransaction(message, kind);
                answer.add(kind + " " + result.getSendStatus() + " " + result.getLocalTransactionState()
                    + " id " + (result.getTransactionId() != null));
            }
        }
        answer.add("all seen " + Clients.eventually(() -> size(seen) >= 3 * EACH));
        answer.add("all asked " + Clients.eventually(() -> checks.size() >= 3 * EACH));
        synchronized (seen) {
            answer.addAll(seen);
        }
        answer.add("asked about " + new TreeSet<>(checks.keySet()));
    }

    void reply(List<String> answer) throws Exception {
        String topic = clients.name("reply");
        DefaultMQProducer replier = clients.producer();
        DefaultMQPushConsumer consumer = clients.pushConsumer(clients.name("reply-group"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (message.getProperty("CORRELATION_ID") == null) {
                    continue;
                }
                try {
                    String text = new String(message.getBody()) + " to you";
                    replier.send(MessageUtil.createReplyMessage(message, text.getBytes()), ANSWER_MS);
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer asker = clients.newProducer(clients.name("reply-producer"));
        asker.start();
        clients.onClose(asker::shutdown);
        boolean ready = Clients.eventually(
            () -> Clients.attempted(() -> ask(asker, topic, "first", FIRST_ANSWER_MS)).startsWith("first"));
        answer.add("answered " + ready);
        for (int number = 0; number < EACH; number++) {
            String text = "hello " + number;
            answer.add(Clients.attempted(() -> ask(asker, topic, text, ANSWER_MS)));
        }
    }

    private static String ask(DefaultMQProducer asker, String topic, String text, int timeoutMs) throws Exception {
        Message answer = asker.request(new Message(topic, text.getBytes()), timeoutMs);
        TreeSet<String> names = new TreeSet<>(answer.getProperties().keySet());
        return new String(answer.getBody()) + " " + names;
    }

    void trace(List<String> answer) throws Exception {
        String topic = clients.name("trace");
        DefaultMQProducer producer =
            new DefaultMQProducer(clients.name("trace-producer"), (RPCHook) null, true, TRACE_TOPIC);
        producer.setNamesrvAddr(clients.nameServer);
        producer.setInstanceName(clients.instanceName());
        producer.start();
        clients.onClose(producer::shutdown);
        TreeSet<String> seen = new TreeSet<>();
        consume(topic, clients.name("trace-group"), seen, true);
        String key = clients.name("trace-key");
        producer.send(Clients.message(topic, "Tag", key, "traced"));
        answer.add("consumed " + Clients.eventually(() -> size(seen) == 1));
        TreeMap<String, Integer> records = new TreeMap<>();
        answer.add("recorded " + Clients.eventually(() -> {
            records.clear();
            for (MessageExt message : found(key)) {
                for (String record : new String(message.getBody(), StandardCharsets.UTF_8).split("\u0002")) {
                    String[] fields = record.split("\u0001");
                    if (record.contains(key)) {
                        records.put(fields[0], fields.length);
                    }
                }
            }
            return records.size() == 3;
        }));
        answer.add(records.toString());
    }

    private List<MessageExt> found(String key) {
        try {
            return clients.producer().queryMessage(TRACE_TOPIC, key, 32, 0, Long.MAX_VALUE).getMessageList();
        } catch (Exception error) {
            return Collections.emptyList();
        }
    }

    private void consume(String topic, String group, TreeSet<String> seen, boolean traced) throws Exception {
        DefaultMQPushConsumer consumer = traced ? tracedConsumer(group) : clients.pushConsumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            synchronized (seen) {
                for (MessageExt message : messages) {
                    seen.add(message.getKeys() + " " + message.getTags() + " " + new String(message.getBody()));
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private DefaultMQPushConsumer tracedConsumer(String group) {
        DefaultMQPushConsumer made = new DefaultMQPushConsumer(
            group, (RPCHook) null, new AllocateMessageQueueAveragely(), true, TRACE_TOPIC);
        made.setNamesrvAddr(clients.nameServer);
        made.setInstanceName(clients.instanceName());
        made.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        made.setHeartbeatBrokerInterval(1_000);
        clients.onClose(made::shutdown);
        return made;
    }

    private static int size(TreeSet<String> seen) {
        synchronized (seen) {
            return seen.size();
        }
    }
}
