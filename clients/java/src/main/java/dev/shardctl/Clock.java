package dev.shardctl;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;

/** A clock that goes on while the machine sleeps, where there is one: Linux has it in hundredths of a second. */
final class Clock {
    static final double TICK = 0.01;
    private static final RandomAccessFile UPTIME = open();

    private Clock() { }

    /** Seconds since some moment. */
    static double now() {
        if (UPTIME == null) {
            return System.nanoTime() / 1e9;
        }
        byte[] text = new byte[64];
        synchronized (UPTIME) {
            try {
                UPTIME.seek(0);
                return Double.parseDouble(new String(text, 0, UPTIME.read(text), US_ASCII).split(" ")[0]);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    private static RandomAccessFile open() {
        try {
            return new RandomAccessFile("/proc/uptime", "r"); // a channel would be closed by an interrupt
        } catch (IOException e) {
            return null;
        }
    }
}
