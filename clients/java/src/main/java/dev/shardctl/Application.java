package dev.shardctl;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.System.Logger.Level;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;

/**
 * This process as the replica beside it knows it.
 *
 * <p>The replica gives a validity, which counts from the moment at which this process asked for it. At three quarters of
 * it all work is cancelled. When it is over and work still goes on, the process halts with status 75. Methods may be
 * called from any thread.
 */
public final class Application {
    private static final int EXIT_STUCK = 75;
    private static final double WAIT = 1; // seconds that a call may wait for news
    private static final Path UPTIME = Path.of("/proc/uptime");
    private static final System.Logger LOG = System.getLogger("shardctl");

    private final SocketAddress address;
    private final String token;
    private final String id = UUID.randomUUID().toString();
    private final Map<String, Work> work = new HashMap<>();
    private final CountDownLatch ended = new CountDownLatch(1);
    private final Map<String, Double> load = new HashMap<>();
    private final Map<String, Run> runs = new TreeMap<>();
    private Map<String, Long> assigned = Map.of();
    private Map<String, Long> listing = Map.of();
    private String session = "";
    private String listed = "";
    private long seq;
    private boolean ready = true;
    private boolean changed;
    private SocketChannel calling;
    private double cancelAt;
    private volatile double validTo;

    private Application(SocketAddress address, String token) {
        this.address = address;
        this.token = token;
    }

    /** The application of the replica at $SHARDCTL_APP, with the token $SHARDCTL_APP_TOKEN where one is asked for. */
    public static Application connect() {
        return connect(System.getenv().getOrDefault("SHARDCTL_APP", ""),
            System.getenv().getOrDefault("SHARDCTL_APP_TOKEN", ""));
    }

    /** The application of the replica at unix:PATH or HOST:PORT. */
    public static Application connect(String address, String token) {
        if (address.startsWith("unix:")) {
            return new Application(UnixDomainSocketAddress.of(address.substring(5)), token);
        }
        int colon = address.lastIndexOf(':');
        if (colon < 0) {
            throw new IllegalArgumentException("address " + address + ": must be unix:PATH or HOST:PORT, see SHARDCTL_APP");
        }
        String host = address.substring(0, colon).replace("http://", "");
        return new Application(new InetSocketAddress(host, Integer.parseInt(address.substring(colon + 1))), token);
    }

    /** Has the work run for each key of the group that this process may run. Call it before {@link #run}. */
    public Application group(String name, Work function) {
        work.put(name, function);
        return this;
    }

    /** Runs keys until the process is asked to end, and returns when all have been handed over. */
    public void run() throws InterruptedException {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            drain();
            try {
                ended.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        start();
        ended.await();
    }

    /** Runs keys in threads of this process, until {@link #drain}. */
    public void start() {
        if (work.isEmpty()) {
            throw new IllegalStateException("no group: declare one by group(NAME, WORK)");
        }
        daemon("shardctl-watch", this::watch);
        daemon("shardctl-sync", this::sync);
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
        return List.copyOf(runs.keySet());
    }

    /** Who owns a key, as far as the replica knows. The address is where requests for the key go. */
    public record Owner(String instance, String address, long token) { }

    /** Who owns GROUP/NAME; empty: nobody now. */
    public Optional<Owner> owner(String key) throws IOException {
        try {
            var o = Json.object(text(request("GET", "/v1/owner/" + key, new byte[0], 0)));
            return Optional.of(new Owner((String) o.get("instance"), (String) o.get("address"), number(o.get("token"))));
        } catch (ReplicaException e) {
            if (e.status() == 404) {
                return Optional.empty();
            }
            throw e;
        }
    }

    /** Says how much work a key is, in any unit, for a group with weightFrom: reported. */
    public synchronized void setLoad(String key, double amount) {
        load.put(key, amount);
    }

    double validTo() {
        return validTo;
    }

    /** Seconds on a clock that goes on while the machine sleeps, where there is one: hundredths, of Linux. */
    static double now() {
        try {
            String uptime = Files.readString(UPTIME);
            return Double.parseDouble(uptime.substring(0, uptime.indexOf(' ')));
        } catch (IOException e) {
            return System.nanoTime() / 1e9;
        }
    }

    // What follows is the protocol. Calls are one after the other, in one thread.

    private void sync() {
        for (int failures = 0;;) {
            String body = body();
            double sent = now();
            try {
                var reply = Json.object(call(body));
                failures = 0;
                if (obey(reply, sent)) {
                    ended.countDown();
                    return;
                }
            } catch (IOException e) {
                if (hasNews()) {
                    continue; // the call was given up for it
                }
                failures++;
                if (failures == 1 || failures == 10 || failures == 100) {
                    LOG.log(Level.WARNING, "the replica at " + address + " does not answer: " + e.getMessage());
                }
                sleep(Math.min(1, 0.05 * Math.pow(2, failures)) * ThreadLocalRandom.current().nextDouble());
            }
        }
    }

    private synchronized String body() {
        changed = false;
        runs.values().removeIf(r -> r.isOver() && r.lease.cancelled());
        var running = new TreeMap<String, Long>();
        runs.forEach((key, r) -> running.put(key, r.lease.token()));
        var out = new StringBuilder(String.format(
            "{\"app\":%s,\"session\":%s,\"seq\":%d,\"wait\":%s,\"ready\":%s,",
            Json.quote(id), Json.quote(session), seq, WAIT, ready));
        var loads = new ArrayList<String>();
        load.forEach((key, amount) -> loads.add(Json.quote(key) + ":" + amount));
        out.append("\"load\":{").append(String.join(",", loads)).append("},");
        if (!listed.isEmpty() && running.equals(listing)) {
            return out.append("\"same\":").append(Json.quote(listed)).append('}').toString();
        }
        listing = running;
        var list = new ArrayList<String>();
        running.forEach((key, t) -> list.add("{\"key\":" + Json.quote(key) + ",\"token\":" + t + "}"));
        return out.append("\"running\":[").append(String.join(",", list)).append("]}").toString();
    }

    private String call(String body) throws IOException {
        try (var channel = SocketChannel.open(address)) {
            synchronized (this) {
                calling = channel;
                if (changed) {
                    throw new IOException("there is news to send");
                }
            }
            return text(exchange(channel, "POST", "/v1/sync", body.getBytes(StandardCharsets.UTF_8), 0));
        } finally {
            synchronized (this) {
                calling = null;
            }
        }
    }

    /** Has what changed here be said at once: the call that waits is given up, and its reply not acted on. */
    private synchronized void news() {
        changed = true;
        if (calling != null) {
            try {
                calling.close();
            } catch (IOException e) {
                LOG.log(Level.DEBUG, "close", e);
            }
        }
    }

    private synchronized boolean hasNews() {
        return changed;
    }

    /** Acts on the reply to the newest call. It returns whether all is over. */
    private synchronized boolean obey(Map<String, Object> reply, double sent) {
        check();
        if (!session.equals(reply.get("session"))) {
            stopAll();
            validTo = 0;
            cancelAt = 0;
            session = (String) reply.get("session");
            assigned = Map.of();
        }
        seq = number(reply.get("seq"));
        listed = (String) reply.get("listed");
        double validFor = (Double) reply.get("validFor");
        if (sent + validFor > validTo) {
            validTo = sent + validFor;
            cancelAt = sent + 0.75 * validFor;
        }
        if (reply.get("assigned") instanceof List<?> list) {
            var now = new HashMap<String, Long>();
            for (Object o : list) {
                var a = (Map<?, ?>) o;
                now.put((String) a.get("key"), number(a.get("token")));
            }
            assigned = now;
        }
        for (Run r : runs.values()) {
            if (!Long.valueOf(r.lease.token()).equals(assigned.get(r.lease.key()))) {
                r.cancel();
            }
        }
        assigned.forEach((key, t) -> {
            Work w = work.get(key.substring(0, key.indexOf('/')));
            if (w != null && !runs.containsKey(key) && now() < cancelAt) {
                runs.put(key, new Run(new Lease(this, key, t), w));
            }
        });
        return !ready && runs.isEmpty() && assigned.isEmpty();
    }

    /** Cancels what runs and waits until it has ended; the process halts when that takes longer than it may. */
    private void stopAll() {
        runs.values().forEach(Run::cancel);
        while (!runs.values().stream().allMatch(Run::isOver)) {
            check();
            sleep(0.01);
        }
        runs.clear();
    }

    /** Cancels and ends what the validity no longer covers. */
    private synchronized void check() {
        double now = now();
        List<Run> left = runs.values().stream().filter(r -> !r.isOver()).toList();
        if (!left.isEmpty() && now >= validTo) {
            LOG.log(Level.ERROR, left.size() + " runs outlived their lease: halting");
            Runtime.getRuntime().halt(EXIT_STUCK);
        }
        if (now >= cancelAt) {
            left.forEach(Run::cancel);
        }
    }

    private void watch() {
        while (ended.getCount() > 0) {
            check();
            sleep(0.02);
        }
    }

    /** Work on one lease: started again after a pause while it returns by itself. */
    private final class Run {
        private final Lease lease;
        private final Thread thread;

        Run(Lease lease, Work function) {
            this.lease = lease;
            thread = daemon(lease.key(), () -> {
                try {
                    again(function);
                } finally {
                    daemon("shardctl-news", Application.this::news); // once this thread is over
                }
            });
        }

        private void again(Work function) {
            for (double ceiling = 1; !lease.cancelled(); ceiling = Math.min(60, 2 * ceiling)) {
                try {
                    function.run(lease);
                } catch (Work.Done e) {
                    return;
                } catch (InterruptedException e) {
                    continue; // it is cancelled, or was interrupted by itself
                } catch (Exception e) {
                    LOG.log(Level.ERROR, lease.key() + " failed", e);
                }
                sleep(ceiling * ThreadLocalRandom.current().nextDouble());
            }
        }

        void cancel() {
            if (!lease.cancelled()) {
                lease.cancel();
                thread.interrupt();
            }
        }

        boolean isOver() {
            return !thread.isAlive();
        }
    }

    byte[] request(String method, String path, byte[] body, long fencing) throws IOException {
        try (var channel = SocketChannel.open(address)) {
            return exchange(channel, method, path, body, fencing);
        }
    }

    /** One request by HTTP/1.0: the replica closes the connection after its answer. */
    private byte[] exchange(SocketChannel channel, String method, String path, byte[] body, long fencing)
        throws IOException {
        var head = new StringBuilder(method + " " + path + " HTTP/1.0\r\nHost: localhost\r\n");
        head.append("Content-Length: ").append(body.length).append("\r\n");
        if (!token.isEmpty()) {
            head.append("Authorization: Bearer ").append(token).append("\r\n");
        }
        if (fencing > 0) {
            head.append("Shardctl-Fencing-Token: ").append(fencing).append("\r\n");
        }
        write(channel, head.append("\r\n").toString().getBytes(StandardCharsets.UTF_8));
        write(channel, body);
        InputStream in = Channels.newInputStream(channel);
        var all = new ByteArrayOutputStream();
        in.transferTo(all);
        byte[] answer = all.toByteArray();
        int end = text(answer).indexOf("\r\n\r\n");
        if (end < 0) {
            throw new IOException("the replica closed the connection");
        }
        int status = Integer.parseInt(text(answer).split(" ", 3)[1]);
        byte[] rest = java.util.Arrays.copyOfRange(answer, end + 4, answer.length);
        if (status >= 300) {
            Object detail = rest.length > 0 && rest[0] == '{' ? Json.object(text(rest)).get("detail") : text(rest);
            throw new ReplicaException(status, String.valueOf(detail));
        }
        return rest;
    }

    private static void write(SocketChannel channel, byte[] bytes) throws IOException {
        for (var buffer = ByteBuffer.wrap(bytes); buffer.hasRemaining();) {
            channel.write(buffer);
        }
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.ISO_8859_1);
    }

    private static long number(Object o) {
        return ((Double) o).longValue();
    }

    private static void sleep(double seconds) {
        try {
            Thread.sleep((long) (1000 * seconds));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static Thread daemon(String name, Runnable what) {
        var thread = new Thread(what, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }
}
