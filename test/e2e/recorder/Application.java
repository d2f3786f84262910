import static java.nio.charset.StandardCharsets.UTF_8;

import dev.shardctl.Lease;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.TimeUnit;

/** The application of the end-to-end scenarios with the library for Java: see application.py. */
final class Application {
    private static final long PERIOD = 20; // ms

    private Application() { }

    public static void main(String[] args) throws Exception {
        dev.shardctl.Application.connect().group("topics", Application::record).run();
    }

    private static void record(Lease lease) throws Exception {
        long pid = ProcessHandle.current().pid();
        String header = """
            {"key":"%s","token":%d,"session":"%s","instance":"%s","pid":%d,"period":%d}""".formatted(lease.key(),
            lease.token(), System.getenv("SHARDCTL_SESSION"), System.getenv("SHARDCTL_INSTANCE"), pid, PERIOD * 1_000_000);
        String name = "%s-%d-%d.rec".formatted(lease.key().replace('/', '_'), lease.token(), pid);
        var path = new File(System.getenv("RECORD_DIR"), name);
        try (var file = new FileOutputStream(path, true)) {
            if (path.length() == 0) { // else it runs again under its token, after a pause
                var begin = new ByteArrayOutputStream();
                begin.writeBytes(("shardctl-record-1\n" + header + "\n").getBytes(UTF_8));
                begin.writeBytes(timestamp());
                file.write(begin.toByteArray());
            }
            while (!lease.awaitCancelled(PERIOD, TimeUnit.MILLISECONDS)) {
                file.write(timestamp());
            }
        }
    }

    private static byte[] timestamp() {
        return ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN)
            .putLong(System.nanoTime()) // CLOCK_MONOTONIC
            .putLong(System.currentTimeMillis() * 1_000_000).array();
    }
}
