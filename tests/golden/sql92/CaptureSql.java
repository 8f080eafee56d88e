import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/** Reads "expression TAB name=value TAB ..." per line, writes TRUE, FALSE, null, error or refused. */
public class CaptureSql {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder results = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", -1);
            Map<String, String> properties = new HashMap<>();
            for (int index = 1; index < parts.length; index++) {
                int at = parts[index].indexOf('=');
                properties.put(unescaped(parts[index].substring(0, at)), unescaped(parts[index].substring(at + 1)));
            }
            results.append(result(unescaped(parts[0]), properties)).append('\n');
        }
        System.out.print(results);
    }

    private static String unescaped(String text) {
        return text.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r").replace("\\f", "\f");
    }

    private static String result(String text, Map<String, String> properties) {
        Expression compiled;
        try {
            compiled = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (Throwable refusal) {
            return "refused";
        }
        try {
            Object value = compiled.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return properties.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return new HashMap<>(properties);
                }
            });
            return value == null ? "null" : value.toString().toUpperCase();
        } catch (Throwable error) {
            return "error";
        }
    }
}
