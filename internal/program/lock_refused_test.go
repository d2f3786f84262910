//go:build unix

package program

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/test/testservers"
)

// While somebody alters the table of locks nobody is said to hold one: the command says what the server does.
func TestLockWhileTheTableIsHeld(t *testing.T) {
	r := lockRig{t, testservers.Start(t, testservers.KindPostgres).Database(), t.TempDir()}
	r.sh("true").want("a free lock", 0)
	conn, err := pgx.Connect(t.Context(), r.uri)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE "default_mutexes" IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"-w", "4"}, {"-n"}, {"-w", "4", "--shared"}} {
		r.sh("true", append(flags, "-E", "77", "--lease", "6s")...).
			want("while it is held", 77, "the store has not answered", "mutex", "lock timeout")
	}
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	r.sh("true", "-n").want("free again", 0)
}

// What Redis keeps for all of its users is not waited for: another lease is refused at once, however long the command
// may wait.
func TestLockWithAnotherLease(t *testing.T) {
	r := lockRig{t, testservers.Start(t, testservers.KindRedis).Database(), t.TempDir()}
	r.sh("true").want("the lease that is kept from now on", 0)
	for _, flags := range [][]string{{}, {"-w", "60"}, {"-w", "0"}, {"-n"}, {"--shared"}, {"--hold-at-least", "1s"}} {
		r.sh("true", append(flags, "-E", "77", "--lease", "5s")...).
			want("another lease", 78, "a lease of 20000 ms is kept", "configure the same lease")
	}
	r.sh("true", "-n").want("the lease that is kept", 0)
}
