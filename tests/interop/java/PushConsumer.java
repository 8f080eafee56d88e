import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** Prints what arrives until its input ends: PushConsumer NAMESRV GROUP TOPIC. */
public final class PushConsumer {
    public static void main(String[] arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[1]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        // A 5.x client whose first heartbeat came too late gets nothing before the next one.
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.subscribe(arguments[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            print(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("started");
        while (System.in.read() >= 0) { }
        consumer.shutdown();
        System.out.println("done");
        System.exit(0);
    }

    private static synchronized void print(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            System.out.println("got " + message.getKeys() + " " + message.getQueueId() + " "
                + message.getTags() + " " + new String(message.getBody()));
        }
    }
}
