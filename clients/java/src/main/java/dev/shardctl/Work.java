package dev.shardctl;

/**
 * What is done for one key. It returns soon after {@link Lease#cancelled()}: only then may another process run the key.
 * What returns before is started again after a pause, unless it throws {@link Done}.
 */
@FunctionalInterface
public interface Work {
    void run(Lease lease) throws Exception;

    /** Thrown by work that is done: it is not started again under this lease. */
    final class Done extends Exception {
        private static final long serialVersionUID = 1L;
    }
}
