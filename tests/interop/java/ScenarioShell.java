import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;

/**
 * Runs scenarios one after another with the official client: ScenarioShell NAMESRV PREFIX.
 * One scenario per input line; the answer is a line with the number of output lines, then those
 * lines. What is printed depends on what the broker does, not on times, addresses or ids.
 */
public final class ScenarioShell {
    public static void main(String[] arguments) throws Exception {
        Clients clients = new Clients(arguments[0], arguments[1]);
        SendScenarios send = new SendScenarios(clients);
        PushScenarios push = new PushScenarios(clients);
        PullScenarios pull = new PullScenarios(clients);
        RetryScenarios retry = new RetryScenarios(clients);
        TimedScenarios timed = new TimedScenarios(clients);
        ConversationScenarios conversation = new ConversationScenarios(clients);
        LoadScenario load = new LoadScenario(clients);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        System.out.println("ready");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            List<String> answer = new ArrayList<>();
            try {
                switch (line) {
                    case "send": send.send(answer); break;
                    case "sizes": send.sizes(answer); break;
                    case "unknown": send.unknown(answer); break;
                    case "query": send.query(answer); break;
                    case "ordered": push.ordered(answer); break;
                    case "rebalance": push.rebalance(answer); break;
                    case "broadcast": push.broadcast(answer); break;
                    case "filter": push.filter(answer); break;
                    case "namespace": push.namespace(answer); break;
                    case "reset": push.reset(answer); break;
                    case "pull": pull.pull(answer); break;
                    case "lite": pull.lite(answer); break;
                    case "retry": retry.concurrent(answer); break;
                    case "suspend": retry.orderly(answer); break;
                    case "later": timed.later(answer); break;
                    case "transaction": conversation.transaction(answer); break;
                    case "reply": conversation.reply(answer); break;
                    case "trace": conversation.trace(answer); break;
                    case "load": load.start(answer); break;
                    case "loaded": load.progress(answer); break;
                    case "unload": load.stop(answer); break;
                    default: throw new IllegalArgumentException(line);
                }
            } catch (Throwable error) {
                error.printStackTrace();
                answer.add("failed " + error);
            }
            clients.closeAll();
            System.out.println("answer " + answer.size());
            answer.forEach(System.out::println);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
