import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Fills official body classes by reflection with fixed values and prints one line per class and
 * form: name, ".full" or ".empty", a tab, and what RemotingSerializable.encode makes of it.
 * Argument: a file with one class name per line.
 */
public class CaptureBodies {
    private static final int DEPTH_MAX = 6;
    private static int depth = 0;

    public static void main(String[] arguments) throws Exception {
        for (String name : Files.readAllLines(Paths.get(arguments[0]))) {
            Class<?> type = Class.forName(name);
            String label = name.substring(name.lastIndexOf('.') + 1).replace('$', '_');
            print(label + ".empty", encode(construct(type)));
            print(label + ".full", encode(bean(type)));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);  // logging threads of the official classes linger
    }

    private static void print(String label, byte[] text) throws Exception {
        System.out.write((label + "\t").getBytes(StandardCharsets.UTF_8));
        System.out.write(text);
        System.out.write('\n');
    }

    private static byte[] encode(Object body) throws Exception {
        Class<?> serializer = Class.forName("org.apache.rocketmq.remoting.protocol.RemotingSerializable");
        return (byte[]) serializer.getMethod("encode", Object.class).invoke(null, body);
    }

    private static Object construct(Class<?> type) throws Exception {
        Constructor<?>[] constructors = type.getDeclaredConstructors();
        Arrays.sort(constructors, (a, b) -> a.getParameterCount() - b.getParameterCount());
        for (Constructor<?> constructor : constructors) {
            constructor.setAccessible(true);
            Object[] values = new Object[constructor.getParameterCount()];
            for (int i = 0; i < values.length; i++) {
                Class<?> parameter = constructor.getParameterTypes()[i];
                values[i] = parameter == int.class ? (Object) 0 : parameter == long.class ? (Object) 0L
                    : parameter == boolean.class ? (Object) false
                    : parameter == Set.class ? new LinkedHashSet<>() : null;
            }
            try {
                return constructor.newInstance(values);
            } catch (InvocationTargetException copyConstructorOfNull) {
                continue;
            }
        }
        throw new IllegalArgumentException(type.getName());
    }

    private static Object bean(Class<?> type) throws Exception {
        depth++;
        try {
            Object bean = construct(type);
            for (Class<?> part = type; part != Object.class; part = part.getSuperclass()) {
                for (Field field : part.getDeclaredFields()) {
                    if (Modifier.isStatic(field.getModifiers()) || Modifier.isTransient(field.getModifiers())) {
                        continue;
                    }
                    field.setAccessible(true);
                    Object value = value(field.getGenericType(), field.getName());
                    if (value != null) {
                        field.set(bean, value);
                    }
                }
            }
            return bean;
        } finally {
            depth--;
        }
    }

    private static Object value(Type type, String name) throws Exception {
        Class<?> raw = (Class<?>) (type instanceof ParameterizedType
            ? ((ParameterizedType) type).getRawType() : type);
        Type[] of = type instanceof ParameterizedType
            ? ((ParameterizedType) type).getActualTypeArguments() : new Type[0];
        int small = Math.abs(name.hashCode() % 97);
        long large = 1700000000000L + small;
        if (raw == String.class) return name + "/\u00e9";
        if (raw == int.class || raw == Integer.class) return small;
        if (raw == long.class || raw == Long.class) return large;
        if (raw == short.class || raw == Short.class) return (short) small;
        if (raw == boolean.class || raw == Boolean.class) return true;
        if (raw == double.class || raw == Double.class) return small + 0.5;
        if (raw == AtomicLong.class) return new AtomicLong(large);
        if (raw == AtomicInteger.class) return new AtomicInteger(small);
        if (raw == BitSet.class) return BitSet.valueOf(new byte[] {9, 1});
        if (raw.isEnum()) return raw.getEnumConstants()[1];
        if (raw == Properties.class) {
            Properties properties = new Properties();
            properties.put("PROP_A", "v");
            return properties;
        }
        if (Map.class.isAssignableFrom(raw)) return map(raw, of, name);
        if (Collection.class.isAssignableFrom(raw)) return collection(raw, of, name);
        if (depth > DEPTH_MAX || !raw.getName().startsWith("org.apache.rocketmq")) return null;
        return Modifier.isAbstract(raw.getModifiers()) ? null : bean(raw);
    }

    @SuppressWarnings("unchecked")
    private static Object map(Class<?> raw, Type[] of, String name) throws Exception {
        Map<Object, Object> map = !raw.isInterface() ? (Map<Object, Object>) raw.getDeclaredConstructor().newInstance()
            : ConcurrentMap.class.isAssignableFrom(raw) ? new ConcurrentHashMap<>() : new LinkedHashMap<>();
        map.put(value(of[0], name + "K"), value(of[1], name + "V"));
        return map;
    }

    @SuppressWarnings("unchecked")
    private static Object collection(Class<?> raw, Type[] of, String name) throws Exception {
        Collection<Object> collection = !raw.isInterface()
            ? (Collection<Object>) raw.getDeclaredConstructor().newInstance()
            : Set.class.isAssignableFrom(raw) ? new LinkedHashSet<>() : new ArrayList<>();
        collection.add(value(of[0], name + "E"));
        return collection;
    }
}
