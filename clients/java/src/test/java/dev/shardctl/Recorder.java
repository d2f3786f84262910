package dev.shardctl;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The application of the conformance suite: it prints what begins and ends. */
final class Recorder {
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true, UTF_8);

    private Recorder() { }

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            slots(args[0]);
            return;
        }
        var app = Application.connect();
        app.group("work", lease -> {
            say("begin", lease);
            cancelled(lease);
            say("end", lease);
        }).group("slow", Recorder::slow).group("async", Recorder::slow).group("many", Recorder::cancelled)
            .group("count", lease -> {
                while (!lease.awaitCancelled(100, TimeUnit.MILLISECONDS)) {
                    print("owned " + app.owned().size());
                }
            }).group("stuck", lease -> {
                say("begin", lease);
                while (true) {
                    cancelled(lease);
                    pause(60_000);
                }
            }).group("busy", lease -> {
                say("begin", lease);
                while (true) {
                    Thread.onSpinWait();
                }
            }).group("exits", lease -> {
                say("begin", lease);
                System.exit(3);
            }).group("values", lease -> {
                String before = lease.value().map(b -> new String(b, UTF_8)).orElse("");
                lease.setValue((before + "é").getBytes(UTF_8));
                print("begin " + lease.key() + " " + lease.token() + " " + (before.isEmpty() ? "-" : before));
                while (!lease.cancelled()) {
                    Thread.onSpinWait(); // the thread stays interrupted
                }
                lease.setValue((before + "é").getBytes(UTF_8));
                say("end", lease);
            }).group("lost", lease -> {
                try {
                    lease.setValue("late".getBytes(UTF_8));
                } catch (ReplicaException e) {
                    print(e.status() == 409 ? "lost" : e.getMessage());
                }
                cancelled(lease);
            }).group("status", lease -> {
                try {
                    app.setLoad(lease.key(), 1.5);
                    app.setLoad(lease.key(), -1);
                } catch (IllegalArgumentException e) {
                    print(e.getMessage());
                }
                app.setStatus(Map.of("version", "é 1", "lag", 12));
                cancelled(lease);
                app.setStatus(Map.of("version", "é 2"));
            }).group("done", lease -> {
                say("begin", lease);
                throw new Work.Done();
            }).group("again", lease -> say("begin", lease)).group("owner", lease -> {
                var o = app.owner(lease.key()).orElseThrow();
                print("owner " + o.instance() + " " + o.address() + " " + o.token() + " "
                    + (app.owner("work/none").isPresent() ? "somebody" : "-"));
                cancelled(lease);
            });
        app.run();
    }

    private static void slow(Lease lease) {
        say("begin", lease);
        cancelled(lease);
        say("stopping", lease);
        pause(500);
        say("end", lease);
    }

    private static void cancelled(Lease lease) {
        while (!lease.cancelled()) {
            lease.pause(3600);
        }
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            pause(ms);
        }
    }

    private static void slots(String file) throws Exception {
        for (Object o : (List<?>) Json.object("{\"all\":" + Files.readString(Path.of(file)) + "}").get("all")) {
            var v = (Map<?, ?>) o;
            int slot = Application.slot((String) v.get("key"), ((Long) v.get("slots")).intValue());
            if (slot != (Long) v.get("slot")) {
                throw new AssertionError(v + ": " + slot);
            }
        }
        print("slots agree");
    }

    private static void say(String what, Lease lease) {
        print(what + " " + lease.key() + " " + lease.token());
    }

    private static synchronized void print(String line) {
        OUT.println(line);
    }
}
