import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/** Prints frames that the official codec writes: a name, a blank, the bytes as hex. */
public class CaptureFrames {
    public static void main(String[] arguments) {
        for (SerializeType type : SerializeType.values()) {
            String suffix = "-" + type.name().toLowerCase();
            print("request" + suffix, request(type, 105, fields("topic", "T1"), null, 0));
            print("request-with-body" + suffix, request(type, 310, fields("a", "pg", "b", "T1", "e", "0"), "hello", 0));
            print("oneway" + suffix, request(type, 15, fields("topic", "T1"), null, 2));
            print("no-fields" + suffix, request(type, 206, null, null, 0));
            print("empty-fields" + suffix, request(type, 206, new HashMap<>(), null, 0));
            print("empty-value" + suffix, request(type, 105, fields("topic", ""), null, 0));
            print("unicode" + suffix, request(type, 105, fields("topic", "caf\u00e9 \u4e3b\u9898 \ud83d\udd25"), null, 0));
            print("escapes" + suffix, request(type, 105, fields("topic", "\"\\/\b\f\n\r\t\u0001\u007f\u2028<>&'"), null, 0));
            print("pop" + suffix, request(type, 200050, fields("topic", "T1"), null, 0));
            RemotingCommand response = RemotingCommand.createResponseCommand(17, "No topic route info in name server for the topic: T1\nSee https://example.org/");
            response.setOpaque(7);
            print("response" + suffix, with(response, type));
        }
    }

    private static Map<String, String> fields(String... pairs) {
        Map<String, String> fields = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            fields.put(pairs[i], pairs[i + 1]);
        }
        return fields;
    }

    private static RemotingCommand request(SerializeType type, int code, Map<String, String> fields, String body, int flag) {
        RemotingCommand command = RemotingCommand.createRequestCommand(code, null);
        command.setOpaque(7);
        command.setFlag(flag);
        if (fields != null) {
            command.setExtFields(new HashMap<>(fields));
        }
        if (body != null) {
            command.setBody(body.getBytes(StandardCharsets.UTF_8));
        }
        return with(command, type);
    }

    private static RemotingCommand with(RemotingCommand command, SerializeType type) {
        command.setVersion(401);
        command.setSerializeTypeCurrentRPC(type);
        return command;
    }

    private static void print(String name, RemotingCommand command) {
        ByteBuffer frame = command.encode();
        StringBuilder hex = new StringBuilder();
        while (frame.hasRemaining()) {
            hex.append(String.format("%02X", frame.get()));
        }
        System.out.println(name + " " + hex);
    }
}
