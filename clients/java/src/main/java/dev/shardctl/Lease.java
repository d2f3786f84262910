package dev.shardctl;

import java.io.IOException;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** The hold on one key. Its methods may be called from any thread. */
public final class Lease {
    private final Application app;
    private final String key;
    private final long token;
    private final CountDownLatch cancelled = new CountDownLatch(1);

    Lease(Application app, String key, long token) {
        this.app = app;
        this.key = key;
        this.token = token;
    }

    /** GROUP/NAME. */
    public String key() {
        return key;
    }

    /** The part of the key before the first slash. */
    public String group() {
        return key.substring(0, key.indexOf('/'));
    }

    /** The rest of the key. */
    public String name() {
        return key.substring(key.indexOf('/') + 1);
    }

    /** The fencing token: let what the work writes to refuse a smaller one than it has seen. */
    public long token() {
        return token;
    }

    /** Whether the work has to return. Its thread is interrupted at that moment, too. */
    public boolean cancelled() {
        return cancelled.getCount() == 0;
    }

    /** Waits until the work has to return, or the time is over; returns whether it has to. */
    public boolean awaitCancelled(long time, TimeUnit unit) throws InterruptedException {
        return cancelled.await(time, unit);
    }

    /** Whether the work may go on now. It was true a moment ago: send the token along as well. */
    public boolean valid() {
        return !cancelled() && app.left() > 0;
    }

    /** Seconds until the work must have ended. It grows again while the replica renews its lease. */
    public double deadline() {
        return app.left();
    }

    /** What was kept with the key last; empty when nothing was. Status 409: the lease is lost. */
    public Optional<byte[]> value() throws IOException {
        byte[] body = app.replica().request("GET", "value", key, new byte[0], token);
        return body.length == 0 ? Optional.empty() : Optional.of(body);
    }

    /** Keeps a value of at most 64 KiB with the key, for its next owner. Status 409: the lease is lost. */
    public void setValue(byte[] value) throws IOException {
        app.replica().request("PUT", "value", key, value, token);
    }

    void cancel() {
        cancelled.countDown();
    }

    /** Waits, at most until it is cancelled. */
    void pause(double seconds) {
        try {
            cancelled.await((long) (1000 * seconds), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
