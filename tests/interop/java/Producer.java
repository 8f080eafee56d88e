import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Sends numbered messages: Producer NAMESRV GROUP TOPIC COUNT, one line per result. */
public final class Producer {
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(arguments[1]);
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        int count = Integer.parseInt(arguments[3]);
        for (int number = 0; number < count; number++) {
            byte[] body = ("message " + number).getBytes("UTF-8");
            Message message = new Message(arguments[2], "TagA", "key-" + number, body);
            SendResult result = producer.send(message);
            System.out.println("sent " + number + " " + result.getSendStatus() + " "
                + result.getMessageQueue().getBrokerName() + " "
                + result.getMessageQueue().getQueueId() + " " + result.getMsgId());
        }
        producer.shutdown();
        System.out.println("done");
        System.exit(0);
    }
}
