package postgres_test

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/elect/sqlstore/postgres"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// A server that is slow at the start is not taken for a pooler, whose clients look at intervals for good.
func TestSlowNotification(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres)
	link := server.Link()
	uri := server.Database()
	slow := false
	link.Look(func(sent []byte) {
		if slow || !bytes.Contains(sent, []byte("pg_notify(")) {
			return
		}
		slow = true
		pid, err := postgres.Value(t.Context(), uri, `SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN %'`)
		if err != nil || syscall.Kill(int(pid), syscall.SIGSTOP) != nil {
			t.Errorf("the process that listens: %d, %v", pid, err)
			return
		}
		time.AfterFunc(1500*time.Millisecond, func() { _ = syscall.Kill(int(pid), syscall.SIGCONT) })
	})
	s := openBrief(t, server.Via(link, uri))
	link.Look(nil)
	if problems := store.Problems(s); len(problems) > 0 || !slow {
		t.Errorf("problems %+v, slow: %v; want none though it is slow", problems, slow)
	}
}
