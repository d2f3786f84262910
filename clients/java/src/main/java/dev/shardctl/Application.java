package dev.shardctl;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.channels.SocketChannel;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * This process as the replica beside it knows it.
 *
 * <p>The replica gives a validity, which counts from when this process asked for it. All work is cancelled a quarter
 * before its end. When it is over and work still goes on, the process halts with status 75. Methods may be called from
 * any thread.
 */
public final class Application {
    private static final int EXIT_STUCK = 75;
    private static final double WAIT = 1; // seconds that a call may wait for news
    private static final double LOOK = 0.1; // seconds between looks at a clock, at most
    private static final System.Logger LOG = System.getLogger("shardctl");

    private final Replica replica;
    private final String id = UUID.randomUUID().toString();
    private final CountDownLatch ended = new CountDownLatch(1);
    private final Map<String, Work> work = new HashMap<>();
    private final Map<String, Double> load = new HashMap<>();
    private Map<String, String> status = Map.of();
    private final Map<String, Run> runs = new HashMap<>();
    private final Map<String, Long> due = new HashMap<>(); // tokens of what is assigned and has not begun
    private ThreadFactory threads = Thread::new;
    private String listed = ""; // what the replica calls the list of runs; empty: it is not known to have it
    private String session = "";
    private long seq;
    private boolean ready = true;
    private boolean changed; // since the last call was made
    private SocketChannel waiting; // the call that waits for news
    private double timeout = 10;
    private double cancelAt;
    private double longest; // seconds that a reply of this session was valid for
    private volatile double validTo;

    private Application(Replica replica) {
        this.replica = replica;
    }

    /** The application of the replica at $SHARDCTL_APP, with the token $SHARDCTL_APP_TOKEN where one is asked for. */
    public static Application connect() {
        var env = System.getenv();
        return connect(env.getOrDefault("SHARDCTL_APP", ""), env.getOrDefault("SHARDCTL_APP_TOKEN", ""));
    }

    /** The application of the replica at unix:PATH or HOST:PORT. */
    public static Application connect(String address, String token) {
        return new Application(new Replica(address, token));
    }

    /** Has the work run for each key of the group that this process may run. Call it before {@link #run}. */
    public Application group(String name, Work function) {
        work.put(name, function);
        return this;
    }

    /** Has threads for work made by another factory, such as one of virtual threads. */
    public Application threads(ThreadFactory factory) {
        threads = factory;
        return this;
    }

    /** Runs keys until the process is asked to end, as by System.exit, and returns when all have been handed over. */
    public void run() throws InterruptedException {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            drain();
            try {
                while (!ended.await(100, TimeUnit.MILLISECONDS)) {
                    endExiting();
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        start();
        await();
    }

    /** Ends work that has to return and has called System.exit: that waits for this, and never returns. */
    private synchronized void endExiting() {
        for (Run r : runs.values()) {
            if (r.lease.cancelled() && !r.over && Stream.of(r.thread.getStackTrace())
                .anyMatch(frame -> frame.getClassName().equals("java.lang.Shutdown"))) {
                r.over = true;
                news();
            }
        }
    }

    /** Runs keys in threads of this process, until {@link #drain}. */
    public void start() {
        if (work.isEmpty()) {
            throw new IllegalStateException("no group: declare one by group(NAME, WORK)");
        }
        daemon(Thread::new, "shardctl-watch", this::watch);
        daemon(Thread::new, "shardctl-sync", this::sync);
    }

    /** Takes no more keys, and ends once the replica has taken those that run. */
    public synchronized void drain() {
        ready = false;
        news();
    }

    /** Waits until all have been handed over after {@link #drain}. */
    public void await() throws InterruptedException {
        ended.await();
    }

    /** The keys that run here, in order. */
    public synchronized List<String> owned() {
        return runs.values().stream().filter(r -> !r.over).map(r -> r.lease.key()).sorted().toList();
    }

    /** Who owns a key, as far as the replica knows. The address is where requests for the key go. */
    public record Owner(String instance, String address, long token) { }

    /** Who owns GROUP/NAME; empty: it has none now. */
    public Optional<Owner> owner(String key) throws IOException {
        try {
            var o = Json.object(Replica.utf8(replica.request("GET", "owner", key, new byte[0], 0)));
            return Optional.of(new Owner((String) o.get("instance"), (String) o.get("address"), (Long) o.get("token")));
        } catch (ReplicaException e) {
            if (e.status() == 404) {
                return Optional.empty();
            }
            throw e;
        }
    }

    /** Says how much work a key is, in any unit, for a group with weightFrom: reported. */
    public synchronized void setLoad(String key, double amount) {
        if (!(amount >= 0 && amount <= 1e15)) {
            throw new IllegalArgumentException("load " + amount + ": must be from 0 to 1e15");
        }
        load.put(key, amount);
    }

    /** Shows people these names and values with the instance, instead of those before. 16 of 256 bytes are kept. */
    public synchronized void setStatus(Map<String, ?> values) {
        status = values.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, e -> e.getValue().toString()));
    }

    /** The slot of a key in a group with so many: the same number in every language. */
    public static int slot(String key, int slots) {
        if (slots < 1) {
            throw new IllegalArgumentException("slots " + slots + ": must be at least 1");
        }
        long h = 0xcbf29ce484222325L;
        for (byte b : key.getBytes(UTF_8)) {
            h = (h ^ (b & 0xff)) * 0x100000001b3L;
        }
        h = (h ^ h >>> 33) * 0xff51afd7ed558ccdL;
        h = (h ^ h >>> 33) * 0xc4ceb9fe1a85ec53L;
        return (int) Long.remainderUnsigned(h ^ h >>> 33, slots);
    }

    Replica replica() {
        return replica;
    }

    double left() {
        return Math.max(0, validTo - Clock.now());
    }

    // What follows is the protocol. Calls are one after the other, in one thread.

    private void sync() {
        for (int failures = 0; ended.getCount() > 0;) {
            String body = body();
            double sent = Clock.now();
            try (var channel = replica.open()) {
                hold(channel);
                byte[] reply = replica.exchange(channel, "POST", "/v1/sync", body.getBytes(UTF_8), 0, timeout);
                failures = 0;
                obey(Json.object(Replica.utf8(reply)), sent);
            } catch (Exception | OutOfMemoryError e) { // also of a thread that could not be started
                if (!failed()) {
                    continue;
                }
                if (++failures == 1 || failures == 10 || failures == 100) {
                    LOG.log(Level.WARNING, replica + " does not answer: " + e.getMessage());
                }
                sleep(Math.min(1, 0.05 * Math.pow(2, failures)) * ThreadLocalRandom.current().nextDouble());
            }
        }
    }

    /** Returns whether the call failed. Else it was given up for news. */
    private synchronized boolean failed() {
        if (changed) {
            return false;
        }
        if (!ready && runs.values().stream().allMatch(r -> r.over)) {
            ended.countDown(); // nothing runs, so nothing has to be handed over
        }
        return true;
    }

    /** The next call. While nothing changes it takes no longer with more keys. */
    private synchronized String body() {
        if (changed) {
            changed = false;
            listed = "";
            runs.values().removeIf(r -> r.over && r.lease.cancelled());
        }
        var loads = new HashMap<>(load);
        loads.keySet().retainAll(runs.keySet());
        String head = Json.write(Map.of("app", id, "session", session, "seq", seq, "ready", ready, "load", loads,
            "status", status, "same", listed, "wait", listed.isEmpty() ? 0 : WAIT));
        return !listed.isEmpty() ? head : runs.values().stream().map(r -> r.listed)
            .collect(Collectors.joining(",", head.substring(0, head.length() - 1) + ",\"running\":[", "]}"));
    }

    private synchronized void hold(SocketChannel channel) throws IOException {
        waiting = listed.isEmpty() ? null : channel;
        if (waiting != null && changed) {
            throw new IOException("there is news to send");
        }
    }

    /** Has what changed here be said at once: a call that waits is given up, and its reply not acted on. */
    private synchronized void news() {
        changed = true;
        Replica.close(waiting);
    }

    /** Acts on the reply to the newest call. */
    private synchronized void obey(Map<String, Object> reply, double sent) throws IOException {
        if (!(reply.get("validFor") instanceof Number number)) {
            throw new IOException("its answer is no reply");
        }
        double validFor = number.doubleValue();
        check();
        if (!session.equals(reply.get("session"))) {
            runs.values().forEach(Run::cancel);
            if (!runs.values().stream().allMatch(r -> r.over)) {
                throw new IOException("its session is new, and something of the one before still runs");
            }
            runs.clear();
            due.clear();
            validTo = 0;
            longest = 0;
            reply.put("listed", "");
        } else if ((Long) reply.get("seq") < seq) {
            throw new IOException("it repeated an older reply");
        }
        session = (String) reply.get("session");
        seq = (Long) reply.get("seq");
        listed = (String) reply.get("listed");
        timeout = WAIT + Math.max(0.5, validFor / 4);
        longest = Math.max(longest, validFor);
        validTo = Math.max(validTo, sent + validFor - Clock.TICK);
        cancelAt = validTo - longest / 4;
        if (reply.get("assigned") instanceof List<?> list) {
            due.clear();
            list.forEach(a -> due.put((String) ((Map<?, ?>) a).get("key"), (Long) ((Map<?, ?>) a).get("token")));
            runs.forEach((key, r) -> {
                if (!Long.valueOf(r.lease.token()).equals(due.remove(key))) {
                    r.cancel();
                }
            });
        }
        for (var next = due.entrySet().iterator(); next.hasNext() && Clock.now() < validTo - longest / 2;) {
            var entry = next.next();
            var lease = new Lease(this, entry.getKey(), entry.getValue());
            next.remove();
            begin(lease);
        }
        if (!ready && runs.isEmpty() && due.isEmpty()) {
            ended.countDown();
        }
    }

    private void begin(Lease lease) {
        Work function = work.get(lease.group());
        if (function != null) {
            listed = "";
            runs.put(lease.key(), new Run(lease, function));
        }
    }

    /** Cancels what the validity no longer covers, or halts. Returns after how many seconds to look again. */
    private synchronized double check() {
        double now = Clock.now();
        if (now < cancelAt) {
            return Math.min(LOOK, cancelAt - now);
        }
        List<Run> left = runs.values().stream().filter(r -> !r.over).toList();
        if (!left.isEmpty() && now >= validTo) {
            LOG.log(Level.ERROR, left.size() + " runs outlived their lease: halting");
            Runtime.getRuntime().halt(EXIT_STUCK);
        }
        left.forEach(Run::cancel);
        return left.isEmpty() ? LOOK : Math.min(LOOK, validTo - now);
    }

    private void watch() {
        while (ended.getCount() > 0) {
            replica.closeOverdue();
            sleep(check());
        }
    }

    /** Work on one lease: started again after a pause while it returns by itself. */
    private final class Run {
        private final Lease lease;
        private final Work function;
        private final Thread thread;
        private final String listed; // what a call says of it
        private volatile boolean over;

        Run(Lease lease, Work function) {
            this.lease = lease;
            this.function = function;
            listed = Json.write(Map.of("key", lease.key(), "token", lease.token()));
            thread = daemon(threads, lease.key(), this::again);
        }

        private void again() {
            try {
                for (double ceiling = 1; !lease.cancelled(); ceiling = Math.min(60, 2 * ceiling)) {
                    double began = Clock.now();
                    try {
                        function.run(lease);
                    } catch (Work.Done e) {
                        return;
                    } catch (InterruptedException e) {
                        LOG.log(Level.DEBUG, lease.key() + " was interrupted");
                    } catch (Throwable e) {
                        LOG.log(Level.ERROR, lease.key() + " failed", e);
                    }
                    ceiling = Clock.now() - began > 60 ? 1 : ceiling;
                    lease.pause(ceiling * ThreadLocalRandom.current().nextDouble());
                }
            } finally {
                over = true;
                news();
            }
        }

        void cancel() {
            if (!lease.cancelled()) {
                lease.cancel();
                thread.interrupt();
                changed |= over;
            }
        }
    }

    private static void sleep(double seconds) {
        try {
            Thread.sleep((long) Math.ceil(1000 * seconds));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static Thread daemon(ThreadFactory factory, String name, Runnable what) {
        Thread thread = factory.newThread(what);
        thread.setName(name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }
}
