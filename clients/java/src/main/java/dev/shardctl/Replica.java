package dev.shardctl;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;
import static jdk.net.ExtendedSocketOptions.SO_PEERCRED;

import com.sun.security.auth.module.UnixSystem;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.URLEncoder;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** The replica, as requests reach it: HTTP/1.0 over a Unix socket, which java.net.http cannot, or TCP. */
final class Replica {
    private static final Pattern LENGTH = Pattern.compile("(?i)\r\ncontent-length: *(\\d+)");

    private final String name;
    private final SocketAddress address;
    private final String token;
    private final Map<SocketChannel, Double> requests = new ConcurrentHashMap<>(); // until when each may take

    Replica(String name, String token) {
        int colon = name.lastIndexOf(':');
        if (colon < 0) {
            throw new IllegalArgumentException("address \"" + name + "\": must be unix:PATH or HOST:PORT");
        }
        this.name = name;
        this.token = token.strip(); // as of a file, which ends its line
        if (this.token.chars().anyMatch(c -> c < ' ' || c == 0x7f)) {
            throw new IllegalArgumentException("the token holds a control character: must be one line");
        }
        String rest = name.substring(colon + 1);
        address = name.startsWith("unix:") ? UnixDomainSocketAddress.of(name.substring(5))
            : new InetSocketAddress(name.substring(0, colon), Integer.parseInt(rest));
    }

    @Override
    public String toString() {
        return "the replica at " + name;
    }

    /** A connection to the replica. One of another user is refused: others may listen first in a shared directory. */
    SocketChannel open() throws IOException {
        var channel = SocketChannel.open(address);
        try {
            if (channel.supportedOptions().contains(SO_PEERCRED) && address instanceof UnixDomainSocketAddress) {
                checkPeer(channel.getOption(SO_PEERCRED).user().getName());
            }
            return channel;
        } catch (IOException | RuntimeException e) {
            close(channel);
            throw e;
        }
    }

    /** Checks the name of the peer's user, or its number where it has no name. */
    private void checkPeer(String peer) throws IOException {
        var own = new UnixSystem();
        String user = own.getUsername() == null ? Long.toString(own.getUid()) : own.getUsername();
        if (!List.of(user, "root", "0").contains(peer)) {
            throw new IOException(name + " is user " + peer + "'s: must be of user " + user
                + ", as this process, or root");
        }
    }

    /** One request about a key. An interrupt does not end it: work that has to stop may keep its last value. */
    byte[] request(String method, String what, String key, byte[] body, long fencing) throws IOException {
        String path = Arrays.stream(key.split("/", 2)).map(part -> URLEncoder.encode(part, UTF_8).replace("+", "%20"))
            .collect(Collectors.joining("/", "/v1/" + what + "/", ""));
        boolean interrupted = Thread.interrupted();
        try {
            while (true) {
                try (var channel = open()) {
                    return exchange(channel, method, path, body, fencing, 10);
                } catch (ClosedByInterruptException e) {
                    interrupted = Thread.interrupted();
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** One request on a channel; the replica closes it after its answer. */
    byte[] exchange(SocketChannel channel, String method, String path, byte[] body, long fencing, double timeout)
        throws IOException {
        requests.put(channel, Clock.now() + timeout);
        try {
            String head = method + " " + path + " HTTP/1.0\r\nHost: localhost\r\nContent-Length: " + body.length
                + "\r\nAuthorization: Bearer " + token + "\r\nShardctl-Fencing-Token: " + fencing + "\r\n\r\n";
            var out = Channels.newOutputStream(channel);
            out.write(head.getBytes(UTF_8));
            out.write(body);
            var answer = new ByteArrayOutputStream();
            Channels.newInputStream(channel).transferTo(answer);
            return read(answer.toByteArray());
        } finally {
            requests.remove(channel);
        }
    }

    private static byte[] read(byte[] answer) throws IOException {
        String all = new String(answer, ISO_8859_1); // a character for each byte
        int end = all.indexOf("\r\n\r\n") + 4;
        var length = LENGTH.matcher(all.substring(0, Math.max(0, end)));
        int to = length.find() ? end + Integer.parseInt(length.group(1)) : answer.length;
        if (end < 4 || to > answer.length) {
            throw new IOException("the replica closed the connection");
        }
        byte[] text = Arrays.copyOfRange(answer, end, to);
        int status = Integer.parseInt(all.split(" ", 3)[1]);
        if (status < 300) {
            return text;
        }
        Object detail = text.length > 0 && text[0] == '{' ? Json.object(utf8(text)).get("detail") : utf8(text);
        throw new ReplicaException(status, String.valueOf(detail));
    }

    /** Ends requests that take too long. */
    void closeOverdue() {
        double now = Clock.now();
        requests.forEach((channel, until) -> {
            if (now > until) {
                close(channel);
            }
        });
    }

    static void close(SocketChannel channel) {
        try {
            if (channel != null) {
                channel.close();
            }
        } catch (IOException e) {
            System.getLogger("shardctl").log(System.Logger.Level.DEBUG, "close", e);
        }
    }

    static String utf8(byte[] bytes) {
        return new String(bytes, UTF_8);
    }
}
