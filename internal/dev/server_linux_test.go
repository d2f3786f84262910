package dev

import (
	"errors"
	"syscall"
	"testing"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
	_ "github.com/shardctl/shardctl/pkg/store/postgres"
)

// On a store of one's own all runs as on a file. Processes and files go at the end; the cluster called dev stays there,
// without an owner, and goes on with higher tokens.
func TestRealClusterOnAServer(t *testing.T) {
	uri := testservers.Start(t, testservers.KindPostgres).Database()
	before := map[string]int64{}
	for range 2 {
		playOn(t, uri)
		locks := released(t, uri)
		if len(locks) != 6 {
			t.Fatalf("%d locks are left: %v", len(locks), locks)
		}
		for key, rev := range locks {
			if rev <= before[key] {
				t.Errorf("%s: revision %d after %d", key, rev, before[key])
			}
		}
		before = locks
	}
	db, err := store.Open(t.Context(), store.Config{URI: uri, Existing: true})
	if !errors.Is(err, store.ErrInvalid) {
		_ = db.Close(t.Context())
		t.Errorf("the cluster default is there as well: %v", err)
	}
}

// playOn runs six tasks on two replicas, and quits.
func playOn(t *testing.T, uri string) {
	t.Helper()
	r := startReal(t, "--store", uri, "--replicas", "2", "--tasks", "6", "--cap", "6", "--port", "0")
	r.until(`6 of 6 tasks run: r1 3, r2 3`)
	r.eventually("six processes of tasks", func() bool { return r.running() == 6 })
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest := r.drain()
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v: %q", err, rest)
	}
	r.nothingLeft()
}

// released are the revisions of the locks, none of which has an owner, in a cluster without a living session.
func released(t *testing.T, uri string) map[string]int64 {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{URI: uri, Cluster: clusterName, Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	sessions, err := db.List(t.Context(), store.KindSession, store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sessions.Docs {
		if s.State != string(record.Dead) {
			t.Errorf("session %s is %s", s.ID, s.State)
		}
	}
	locks, err := db.List(t.Context(), store.KindLock, store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	revs := map[string]int64{}
	for _, lock := range locks.Docs {
		revs[lock.ID] = lock.Rev
		if lock.Session != "" {
			t.Errorf("%s is owned by %s", lock.ID, lock.Session)
		}
	}
	return revs
}
