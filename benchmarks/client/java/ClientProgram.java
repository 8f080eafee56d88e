import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** The official Java client takes the orders of benchmarks/client/worker.py. */
public final class ClientProgram {
    private static final int IN_FLIGHT = 64;
    private static final int BATCH_COUNT = 32;
    private static final int LINGERING_CALLERS = 1_000;
    private static final int LINGER_MS = 5;
    private static final int UNTIMED_PART = 5;
    private static final long CONSUME_TIMEOUT_S = 60;
    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final String nameServer;

    private ClientProgram(String nameServer) {
        this.nameServer = nameServer;
    }

    public static void main(String[] arguments) throws Exception {
        ClientProgram program = new ClientProgram(arguments[0]);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            System.out.println("= " + program.obey(line.split(" ")));
        }
        System.exit(0);
    }

    private String obey(String[] order) throws Exception {
        switch (order[0]) {
            case "produce":
                return produce(order[1], order[2], Integer.parseInt(order[3]), Double.parseDouble(order[4]));
            case "consume":
                return consume(order[1], order[2], Integer.parseInt(order[3]), Integer.parseInt(order[4]));
            case "first":
                return first(order[1]);
            default:
                throw new IllegalArgumentException(String.join(" ", order));
        }
    }

    private static final class Clock {
        private final long wallNs = System.nanoTime();
        private final long cpuNs = PROCESS.getProcessCpuTime();

        String report(long messages) {
            long cpu = PROCESS.getProcessCpuTime() - cpuNs;
            return String.format(Locale.ROOT, "%d %.6f %.6f", messages, (System.nanoTime() - wallNs) / 1e9, cpu / 1e9);
        }
    }

    // Producing

    private DefaultMQProducer producer(String group) {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName("bench-" + System.nanoTime());
        return producer;
    }

    private String produce(String mode, String topic, int size, double seconds) throws Exception {
        DefaultMQProducer producer = producer("bench-java");
        if (mode.equals("lingering")) {
            producer.setAutoBatch(true);
            producer.batchMaxDelayMs(LINGER_MS);
        }
        producer.start();
        try {
            byte[] body = new byte[size];
            check(producer.send(new Message(topic, body)));
            long end = System.nanoTime() + (long) (seconds * 1e9);
            switch (mode) {
                case "one":
                    return oneByOne(producer, topic, body, end);
                case "batch":
                    return batches(producer, topic, body, end);
                case "in-flight":
                    return inFlight(producer, topic, body, end, IN_FLIGHT);
                case "lingering":
                    return inFlight(producer, topic, body, end, LINGERING_CALLERS);
                default:
                    throw new IllegalArgumentException(mode);
            }
        } finally {
            producer.shutdown();
        }
    }

    private static String oneByOne(DefaultMQProducer producer, String topic, byte[] body, long end) throws Exception {
        Clock clock = new Clock();
        long sent = 0;
        while (System.nanoTime() < end) {
            check(producer.send(new Message(topic, body)));
            sent++;
        }
        return clock.report(sent);
    }

    private static String batches(DefaultMQProducer producer, String topic, byte[] body, long end) throws Exception {
        Clock clock = new Clock();
        long sent = 0;
        while (System.nanoTime() < end) {
            List<Message> messages = new ArrayList<>(BATCH_COUNT);
            for (int number = 0; number < BATCH_COUNT; number++) {
                messages.add(new Message(topic, body));
            }
            check(producer.send(messages));
            sent += BATCH_COUNT;
        }
        return clock.report(sent);
    }

    private static String inFlight(DefaultMQProducer producer, String topic, byte[] body, long end, int width)
        throws Exception {
        Semaphore room = new Semaphore(width);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                room.release();
            }

            @Override
            public void onException(Throwable error) {
                failure.set(error);
                room.release();
            }
        };
        Clock clock = new Clock();
        long sent = 0;
        while (System.nanoTime() < end) {
            room.acquire();
            producer.send(new Message(topic, body), callback);
            sent++;
        }
        room.acquire(width);
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        return clock.report(sent);
    }

    private String first(String topic) throws Exception {
        long startedAt = System.nanoTime();
        DefaultMQProducer producer = producer("bench-java-first");
        producer.start();
        check(producer.send(new Message(topic, "first".getBytes())));
        double tookS = (System.nanoTime() - startedAt) / 1e9;
        producer.shutdown();
        return String.format(Locale.ROOT, "%.6f", tookS);
    }

    private static void check(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.toString());
        }
    }

    // Consuming

    /** Counts what arrives; its clock runs from the first timed message to the last one. */
    private static final class Tally {
        private final AtomicLong numbers = new AtomicLong();
        private final CountDownLatch done = new CountDownLatch(1);
        private final int count;
        private final int size;
        private final int untimed;
        private volatile Clock clock;
        private volatile String report;

        Tally(int count, int size) {
            this.count = count;
            this.size = size;
            this.untimed = count / UNTIMED_PART;
        }

        void see(byte[] body) {
            if (body.length != size) {
                throw new IllegalStateException("a body of " + body.length + " bytes");
            }
            long number = numbers.incrementAndGet();
            if (number == untimed) {
                clock = new Clock();
            } else if (number == count) {
                report = clock.report(number - untimed);
                done.countDown();
            }
        }

        String report() throws InterruptedException {
            if (!done.await(CONSUME_TIMEOUT_S, TimeUnit.SECONDS)) {
                throw new IllegalStateException("only " + numbers.get() + " messages came");
            }
            return report;
        }
    }

    private String consume(String mode, String topic, int size, int count) throws Exception {
        Tally tally = new Tally(count, size);
        String group = "bench-java-" + System.nanoTime();
        return mode.equals("pull") ? pull(group, topic, tally) : push(group, topic, tally, mode.equals("batch"));
    }

    private String push(String group, String topic, Tally tally, boolean isBatch) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(isBatch ? BATCH_COUNT : 1);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                tally.see(message.getBody());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            return tally.report();
        } finally {
            consumer.shutdown();
        }
    }

    private String pull(String group, String topic, Tally tally) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(BATCH_COUNT);
        consumer.subscribe(topic, "*");
        consumer.start();
        try {
            long end = System.nanoTime() + CONSUME_TIMEOUT_S * 1_000_000_000L;
            while (tally.report == null && System.nanoTime() < end) {
                for (MessageExt message : consumer.poll()) {
                    tally.see(message.getBody());
                }
            }
            return tally.report();
        } finally {
            consumer.shutdown();
        }
    }
}
