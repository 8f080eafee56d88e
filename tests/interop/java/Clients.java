import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Producers and consumers of the scenarios, closed when a scenario ends. */
final class Clients {
    private static final int POLL_MS = 50;
    static final int PATIENCE_S = 60;

    final String nameServer;
    final String prefix;
    private final DefaultMQProducer producer;
    private final AtomicInteger instances = new AtomicInteger();
    private final List<Runnable> closings = new ArrayList<>();

    Clients(String nameServer, String prefix) throws Exception {
        this.nameServer = nameServer;
        this.prefix = prefix;
        producer = newProducer(prefix + "-producer");
        producer.start();
    }

    /** The producer that all scenarios share. */
    DefaultMQProducer producer() {
        return producer;
    }

    String name(String what) {
        return prefix + "-" + what;
    }

    DefaultMQProducer newProducer(String group) {
        DefaultMQProducer made = new DefaultMQProducer(group);
        made.setNamesrvAddr(nameServer);
        made.setInstanceName(instanceName());
        made.setSendMsgTimeout(10_000);
        return made;
    }

    DefaultMQPushConsumer pushConsumer(String group) {
        DefaultMQPushConsumer made = new DefaultMQPushConsumer(group);
        made.setNamesrvAddr(nameServer);
        made.setInstanceName(instanceName());
        made.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        // A 5.x client whose first heartbeat came too late gets nothing before the next one.
        made.setHeartbeatBrokerInterval(1_000);
        made.setPollNameServerInterval(1_000);
        made.setConsumeThreadMin(2);
        made.setConsumeThreadMax(2);
        onClose(made::shutdown);
        return made;
    }

    DefaultMQPullConsumer pullConsumer(String group) throws Exception {
        DefaultMQPullConsumer made = new DefaultMQPullConsumer(group);
        made.setNamesrvAddr(nameServer);
        made.setInstanceName(instanceName());
        made.start();
        onClose(made::shutdown);
        return made;
    }

    DefaultLitePullConsumer litePullConsumer(String group) {
        DefaultLitePullConsumer made = new DefaultLitePullConsumer(group);
        made.setNamesrvAddr(nameServer);
        made.setInstanceName(instanceName());
        made.setAutoCommit(false);
        made.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        made.setHeartbeatBrokerInterval(1_000);
        onClose(made::shutdown);
        return made;
    }

    String instanceName() {
        return prefix + "#" + instances.incrementAndGet();
    }

    void onClose(Runnable closing) {
        closings.add(closing);
    }

    void closeAll() {
        for (Runnable closing : closings) {
            closing.run();
        }
        closings.clear();
    }

    static Message message(String topic, String tag, String key, String body) {
        return new Message(topic, tag, key, body.getBytes());
    }

    /** The enum moved to another package between the lines, so it is set by name. */
    static void setMessageModel(DefaultMQPushConsumer consumer, String model) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                for (Object value : method.getParameterTypes()[0].getEnumConstants()) {
                    if (value.toString().equals(model)) {
                        method.invoke(consumer, value);
                    }
                }
            }
        }
    }

    static boolean eventually(Callable<Boolean> condition) throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_S * 1000L;
        while (!condition.call()) {
            if (System.currentTimeMillis() > deadline) {
                return false;
            }
            Thread.sleep(POLL_MS);
        }
        return true;
    }

    /** What an exception says that does not depend on addresses and times. */
    static String failure(Throwable error) {
        if (error instanceof MQBrokerException) {
            return "broker exception " + ((MQBrokerException) error).getResponseCode();
        }
        if (error instanceof MQClientException) {
            return "client exception " + ((MQClientException) error).getResponseCode();
        }
        return error.getClass().getSimpleName();
    }

    interface Attempt {
        String make() throws Exception;
    }

    static String attempted(Attempt attempt) {
        try {
            return attempt.make();
        } catch (Exception error) {
            return failure(error);
        }
    }
}
