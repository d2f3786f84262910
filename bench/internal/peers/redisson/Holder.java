import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Holds locks of Redisson, ordered about as the holders in Go are: see Holder of package peers. Redisson's watchdog
 * renews them. An owner is a thread's number, so each caller has one of its own and all share one client.
 */
public final class Holder {
    /** One lock that a caller asked for. */
    private static final class Claim {
        final RLock lock;
        final long owner;
        volatile long last;

        Claim(RLock lock, long owner) {
            this.lock = lock;
            this.owner = owner;
        }
    }

    private static final Map<String, Claim> CLAIMS = new ConcurrentHashMap<>();
    private static final AtomicLong OWNERS = new AtomicLong(1_000);
    private static final ScheduledExecutorService WORK = Executors.newSingleThreadScheduledExecutor();

    private Holder() {}

    public static void main(String[] args) throws Exception {
        Map<String, String> flags = new ConcurrentHashMap<>();
        for (int i = 0; i + 1 < args.length; i += 2) {
            flags.put(args[i], args[i + 1]);
        }
        long begin = System.nanoTime();
        Config config = new Config();
        config.setLockWatchdogTimeout(lease(flags.get("-lease")));
        config.useSingleServer().setAddress("redis://" + flags.get("-uri"));
        RedissonClient client = Redisson.create(config);
        boolean fair = flags.get("-peer").endsWith("-fair");
        String prefix = flags.get("-peer") + "-";
        say("opened", "-", begin, System.nanoTime());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            int space = line.indexOf(' ');
            String key = line.substring(space + 1);
            String name = prefix + key.replaceFirst("#.*", "");
            carryOut(line.substring(0, space), key, fair ? client.getFairLock(name) : client.getLock(name));
        }
        Runtime.getRuntime().halt(0);
    }

    /** Milliseconds of a duration in seconds, as 4s or 15s. */
    private static long lease(String text) {
        if (!text.matches("[0-9]+s")) {
            throw new IllegalArgumentException("-lease is " + text + ", want whole seconds");
        }
        return 1_000 * Long.parseLong(text.replace("s", ""));
    }

    private static void carryOut(String verb, String key, RLock lock) {
        long begin = System.nanoTime();
        Claim claim = CLAIMS.get(key);
        switch (verb) {
            case "open":
                say("opened", key, begin, System.nanoTime());
                return;
            case "acquire":
                Claim next = new Claim(lock, OWNERS.incrementAndGet());
                lock.lockAsync(next.owner).whenComplete((nothing, error) -> {
                    CLAIMS.put(key, next);
                    answer("acquired", key, begin, error);
                });
                return;
            case "release":
                claim.lock.unlockAsync(claim.owner).whenComplete((nothing, error) ->
                    answer("released", key, begin, error));
                return;
            case "work": // nothing tells it of a loss
                WORK.scheduleAtFixedRate(() -> claim.last = System.nanoTime(), 0, 1, TimeUnit.MILLISECONDS);
                say("works", key, begin, System.nanoTime());
                return;
            case "report":
                say("reports", key, claim.last, 0);
                return;
            default:
                throw new IllegalArgumentException(verb + " is no order");
        }
    }

    private static void answer(String what, String key, long begin, Throwable error) {
        if (error == null) {
            say(what, key, begin, System.nanoTime());
        } else {
            line("failed " + key + " " + String.valueOf(error).replace('\n', ' '));
        }
    }

    private static void say(String what, String key, long begin, long end) {
        line(what + " " + key + " " + begin + " " + end);
    }

    private static synchronized void line(String text) {
        System.out.println(text);
        System.out.flush();
    }
}
