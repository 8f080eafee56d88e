import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages that fail until they become dead letters. */
final class RetryScenarios {
    private static final int TIMES_MAX = 2;

    private final Clients clients;

    RetryScenarios(Clients clients) {
        this.clients = clients;
    }

    void concurrent(List<String> answer) throws Exception {
        String topic = clients.name("retry");
        String group = clients.name("retry-group");
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = clients.pushConsumer(group);
        consumer.setMaxReconsumeTimes(TIMES_MAX);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean isPoison = false;
            for (MessageExt message : messages) {
                isPoison |= message.getKeys().equals("poison");
                seen.add(message.getKeys() + " times " + message.getReconsumeTimes() + " topic " + message.getTopic()
                    + " of " + new String(message.getBody()));
            }
            return isPoison ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.start();
        SendResult sent = clients.producer().send(Clients.message(topic, "T", "poison", "bad"));
        Clients.eventually(() -> seen.size() >= TIMES_MAX + 1);
        answer.addAll(seen);
        answer.add(deadLetter(group, sent));
        clients.producer().send(Clients.message(topic, "T", "healthy", "good"));
        Clients.eventually(() -> seen.size() >= TIMES_MAX + 2);
        answer.add("after it " + seen.size());
    }

    void orderly(List<String> answer) throws Exception {
        String topic = clients.name("suspend");
        String group = clients.name("suspend-group");
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = clients.pushConsumer(group);
        consumer.setMaxReconsumeTimes(TIMES_MAX);
        consumer.setSuspendCurrentQueueTimeMillis(200);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            MessageExt message = messages.get(0);
            seen.add(message.getKeys() + " times " + message.getReconsumeTimes());
            return message.getKeys().equals("poison")
                ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
        });
        SendResult sent = clients.producer().send(Clients.message(topic, "T", "poison", "bad"));
        clients.producer().send(Clients.message(topic, "T", "healthy", "good"));
        consumer.start();
        Clients.eventually(() -> seen.stream().anyMatch(line -> line.startsWith("healthy")));
        answer.addAll(seen);
        answer.add(deadLetter(group, sent));
    }

    private String deadLetter(String group, SendResult sent) throws Exception {
        DefaultMQPullConsumer reader = clients.pullConsumer(group + "-reader");
        MessageQueue queue = new MessageQueue("%DLQ%" + group, sent.getMessageQueue().getBrokerName(), 0);
        StringBuilder found = new StringBuilder("dead letter ");
        Clients.eventually(() -> {
            PullResult result;
            try {
                result = reader.pull(queue, "*", 0, 32);
            } catch (Exception notYet) {
                return false;
            }
            if (result.getPullStatus() != PullStatus.FOUND) {
                return false;
            }
            for (MessageExt message : result.getMsgFoundList()) {
                found.append(message.getKeys()).append(" times ").append(message.getReconsumeTimes())
                    .append(" of ").append(message.getProperty("RETRY_TOPIC"))
                    .append(" origin ").append(sent.getOffsetMsgId().equals(message.getProperty("ORIGIN_MESSAGE_ID"))
                        || sent.getMsgId().equals(message.getProperty("ORIGIN_MESSAGE_ID")))
                    .append(" same id ").append(sent.getMsgId().equals(message.getMsgId()));
            }
            return true;
        });
        return found.toString();
    }
}
