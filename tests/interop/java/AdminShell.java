import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.security.Permission;
import java.util.Arrays;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands inside one JVM, because a process per command lingers for seconds.
 * One command per input line, arguments separated by tabs; the answer is a line with the
 * number of output lines, then those lines.
 */
public final class AdminShell {
    /** An Error, because the tools catch every Exception. */
    private static final class ExitAttempt extends Error { }

    /** Commands end the JVM on bad arguments; here that only ends the command. */
    private static final class NoExit extends SecurityManager {
        @Override public void checkExit(int status) {
            throw new ExitAttempt();
        }

        @Override public void checkPermission(Permission permission) { }
    }

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        System.setSecurityManager(new NoExit());
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        answers.println("ready");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] output = run(line.split("\t", -1)).split("\n", -1);
            int count = output[output.length - 1].isEmpty() ? output.length - 1 : output.length;
            answers.println("answer " + count);
            Arrays.stream(output).limit(count).forEach(answers::println);
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String run(String[] arguments) throws Exception {
        ByteArrayOutputStream captured = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(captured, true, "UTF-8");
        PrintStream normalOutput = System.out;
        PrintStream normalErrors = System.err;
        System.setOut(stream);
        System.setErr(stream);
        try {
            MQAdminStartup.main0(arguments, null);
        } catch (ExitAttempt ended) {
            stream.println("(the command ended the program)");
        } finally {
            System.setOut(normalOutput);
            System.setErr(normalErrors);
        }
        return captured.toString("UTF-8");
    }
}
