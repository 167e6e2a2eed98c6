// Runs command line tools one after the other in one virtual machine, each as if it had a process of its own.
//
// Standard input: requests, each the number of its strings (four bytes) and the strings (length in four bytes, UTF-8):
// the class of the tool, what it reads from its standard input, its arguments. Standard output: the answers, each the
// exit code and the length of the output (four bytes each), and what the tool printed, both streams in one.
//
// A tool ends as a process does: with System.exit, or when its last thread that is no daemon has ended. Its shutdown
// hooks run then. Needs -Djava.security.manager=allow and --add-opens=java.base/java.lang=ALL-UNNAMED.
import java.io.*;
import java.lang.reflect.*;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.util.*;
import java.util.concurrent.atomic.AtomicReference;

public class ToolRunner {
    static final AtomicReference<Integer> EXIT_CODE = new AtomicReference<>();
    // tools may store System.out when they start, so it must remain the same object
    static volatile OutputStream output = OutputStream.nullOutputStream();

    @SuppressWarnings("removal")
    public static void main(String[] none) throws Exception {
        var requests = new DataInputStream(new BufferedInputStream(System.in));
        var answers = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)));
        var printed = new PrintStream(new Output(), true);
        System.setOut(printed);
        System.setErr(printed);
        System.setSecurityManager(new ExitManager());
        while (true) {
            String[] request;
            try {
                request = read(requests);
            } catch (EOFException ended) {
                break;
            }
            var collected = new ByteArrayOutputStream();
            int code = run(request, collected);
            answers.writeInt(code);
            answers.writeInt(collected.size());
            collected.writeTo(answers);
            answers.flush();
        }
        System.setSecurityManager(null);
        Runtime.getRuntime().halt(0);
    }

    static String[] read(DataInputStream requests) throws IOException {
        var strings = new String[requests.readInt()];
        for (int each = 0; each < strings.length; each++)
            strings[each] = new String(requests.readNBytes(requests.readInt()), StandardCharsets.UTF_8);
        return strings;
    }

    static int run(String[] request, OutputStream collected) throws Exception {
        EXIT_CODE.set(null);
        output = collected;
        System.setIn(new ByteArrayInputStream(request[1].getBytes(StandardCharsets.UTF_8)));
        var threads = new ThreadGroup("tool");
        var main = new Thread(threads, () -> call(request[0], Arrays.copyOfRange(request, 2, request.length)), "main");
        main.start();
        main.join();
        for (Thread thread : new ArrayList<>(running(threads)))
            while (thread.isAlive() && EXIT_CODE.get() == null) thread.join(10);
        output = collected; // including that of shutdown hooks
        for (Thread hook : takenHooks()) {
            hook.start();
            hook.join();
        }
        output = OutputStream.nullOutputStream();
        return Objects.requireNonNullElse(EXIT_CODE.get(), 0);
    }

    static void call(String tool, String[] arguments) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (EXIT_CODE.compareAndSet(null, 1)) thrown.getCause().printStackTrace();
        } catch (ReflectiveOperationException missing) {
            EXIT_CODE.set(1);
            missing.printStackTrace();
        }
    }

    static List<Thread> running(ThreadGroup group) {
        var threads = new Thread[group.activeCount() + 100];
        group.enumerate(threads);
        return Arrays.stream(threads).filter(each -> each != null && !each.isDaemon()).toList();
    }

    @SuppressWarnings("unchecked")
    static List<Thread> takenHooks() throws ReflectiveOperationException {
        Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        field.setAccessible(true);
        var hooks = (Map<Thread, Thread>) field.get(null);
        synchronized (field.getDeclaringClass()) {
            var taken = List.copyOf(hooks.keySet());
            hooks.clear();
            return taken;
        }
    }

    static class Output extends OutputStream {
        @Override
        public void write(int octet) throws IOException {
            output.write(octet);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            output.write(bytes, from, length);
        }
    }

    /** Ends a tool instead of the JVM: output after its exit is dropped. */
    @SuppressWarnings("removal")
    static class ExitManager extends SecurityManager {
        @Override
        public void checkExit(int status) {
            if (EXIT_CODE.compareAndSet(null, status)) output = OutputStream.nullOutputStream();
            throw new SecurityException("exit " + status);
        }

        @Override
        public void checkPermission(Permission permission) {
            // everything else is allowed
        }

        @Override
        public void checkPermission(Permission permission, Object context) {
            // as above
        }
    }
}
