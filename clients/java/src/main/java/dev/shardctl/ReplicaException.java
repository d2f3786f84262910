package dev.shardctl;

import java.io.IOException;

/** The replica refused a request, with the status of HTTP. 409 for a value: the key is another's by now. */
public final class ReplicaException extends IOException {
    private static final long serialVersionUID = 1L;
    private final int status;

    ReplicaException(int status, String detail) {
        super(status + ": " + detail);
        this.status = status;
    }

    public int status() {
        return status;
    }
}
