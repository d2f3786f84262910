package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// A server that is slow at the start is not taken for a pooler, whose clients look at intervals for good.
func TestSlowNotification(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
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

// A connection that listens and is lost again and again is one line of the log.
func TestLostListenerIsLoggedOnce(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	var lines atomic.Int64
	s, err := postgres.Open(t.Context(), postgres.Options{URI: uri, Logger: funcr.New(func(_, args string) {
		if strings.Contains(args, "hears of changes was lost") {
			lines.Add(1)
		}
	}, funcr.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	const listens = `SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND ` +
		`datname = current_database() AND pid <> $1`
	pid := int64(0)
	for lost := range int64(4) {
		before := pid
		for end := time.Now().Add(patience); pid == before || pid == 0; {
			if pid, err = postgres.Value(t.Context(), uri, listens, before); err != nil || time.Now().After(end) {
				t.Fatalf("nothing listens: %v", err)
			}
		}
		if n := lines.Load(); n != min(lost, 1) {
			t.Errorf("%d lines after %d were lost", n, lost)
		}
		if _, err := postgres.Value(t.Context(), uri, `SELECT pg_terminate_backend($1)::int`, pid); err != nil {
			t.Fatal(err)
		}
	}
}

// A watch that ends with each change, here for want of a right, is one line of the log until one works again.
func TestEndOfWatchesIsLoggedOnce(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	worker := testservers.Name()
	run := func(statements ...string) {
		t.Helper()
		if err := postgres.Exec(t.Context(), uri, statements...); err != nil {
			t.Fatal(err)
		}
	}
	owner := storetest.Open(t, driver.Config{URI: uri})
	const tables = ` ON ALL TABLES IN SCHEMA public TO `
	run(`CREATE ROLE `+worker+` LOGIN`, `GRANT SELECT, INSERT, UPDATE, DELETE`+tables+worker)
	var lines atomic.Int64
	s, err := postgres.Open(t.Context(), postgres.Options{
		URI: with(t, uri, func(u *url.URL) { u.User = url.User(worker) }),
		Logger: funcr.New(func(_, args string) {
			if strings.Contains(args, "The watch broke:") {
				lines.Add(1)
			}
		}, funcr.Options{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	for round := range int64(2) {
		run(`REVOKE SELECT ON default_groups FROM ` + worker)
		for range 2 {
			notes, err := s.Watch(t.Context(), driver.Interest{})
			if err != nil {
				t.Fatal(err)
			}
			calls.Until(t, owner, increment("g"))
			for range notes { // until it ends
			}
		}
		if n := lines.Load(); n != round+1 {
			t.Errorf("round %d: %d lines", round, n)
		}
		run(`GRANT SELECT ON default_groups TO ` + worker)
		notes, err := s.Watch(t.Context(), driver.Interest{})
		if err != nil {
			t.Fatal(err)
		}
		<-notes // the first Resync
		calls.Until(t, owner, increment("g"))
		calls.Notified(t, notes, "g")
	}
}

// A watch that waits for one that begins to listen ends with its own context.
func TestWatchThatWaitsForAnotherEndsInTime(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	link := server.Link()
	uri := server.Database()
	if err := storetest.Open(t, driver.Config{URI: uri}).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Options{URI: server.Via(link, uri), Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	before := link.Clients()
	link.Block()
	defer link.Unblock()
	first, second := make(chan error, 1), make(chan error, 1)
	watch := func(ctx context.Context, done chan<- error) {
		_, err := s.Watch(ctx, driver.Interest{})
		done <- err
	}
	go watch(t.Context(), first)
	for end := time.Now().Add(patience); link.Clients() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first does not connect")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), brief/10)
	defer cancel()
	go watch(ctx, second)
	select {
	case err := <-second:
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("the second: %v", err)
		}
	case err := <-first:
		t.Errorf("the second waits for the first: %v", err)
	}
}
