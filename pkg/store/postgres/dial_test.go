package postgres_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// cancelCode is the number of a request to cancel a statement, in the place of a protocol's version.
const cancelCode = 80877102

// refuse takes the place of a link, and ends every connection as a server does that starts up. Each gets, with the
// version of the protocol that it asked for.
func refuse(t *testing.T, link *testservers.Proxy) <-chan uint32 {
	t.Helper()
	link.Close()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", link.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	dialled := make(chan uint32, 1000)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			begin := make([]byte, 8)
			_, _ = io.ReadFull(conn, begin)
			dialled <- binary.BigEndian.Uint32(begin[4:]) // before the client can know
			_ = conn.Close()
		}
	}()
	return dialled
}

// A watch without a server connects at intervals, not all the time.
func TestWatchWithoutServer(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	server := testservers.Shared(t, testservers.KindPostgres)
	link := server.Link()
	s := openBrief(t, server.Via(link, server.Database()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := s.Watch(ctx, driver.Interest{}); err != nil {
		t.Fatal(err)
	}
	dialled := refuse(t, link)
	const dials, few = 35, 10
	at := make([]time.Time, dials)
	for i := range at {
		if <-dialled == cancelCode {
			t.Fatal("a statement was cancelled that never was")
		}
		at[i] = time.Now()
	}
	// Some four a second of the watch, once it looks, and two of the connection that listens.
	for i := few; i < dials; i++ {
		if took := at[i].Sub(at[i-few]); took < time.Second {
			t.Fatalf("%d connections within %v, want them at intervals", few, took)
		}
	}
}

// A read that finds no server does not look for it again and again.
func TestReadWithoutServer(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	link := server.Link()
	uri := server.Database()
	storetest.Open(t, driver.Config{URI: uri})
	s, err := postgres.Open(t.Context(), postgres.Options{URI: server.Via(link, uri), Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	dialled := refuse(t, link)
	if _, err := s.Read(t.Context(), driver.KindLock, "g/a"); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	for len(dialled) > 0 {
		<-dialled
	}
	if _, err := s.Read(t.Context(), driver.KindLock, "g/a"); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if n := len(dialled); n != 1 {
		t.Errorf("a read connected %d times, want once", n)
	}
}

// A process of the same number on a server that was started at another time is not the one that works on a call.
func TestOtherServer(t *testing.T) {
	same, restarted, err := postgres.Works(t.Context(), testservers.Shared(t, testservers.KindPostgres).Database())
	if err != nil || !same || restarted {
		t.Errorf("works %v, on another server %v, %v; want true and false", same, restarted, err)
	}
}

// Close lets go of everything without an error while calls are under way whose callers have left.
func TestClosedUnderLateCalls(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	for round := range 30 {
		s, err := postgres.Open(t.Context(), postgres.Options{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for i := range 4 {
			callers.Go(func() {
				for ctx.Err() == nil {
					_, _ = s.Apply(ctx, increment(fmt.Sprintf("g%d", i)))
				}
			})
		}
		time.Sleep(time.Duration(round) * time.Millisecond)
		leave()
		callers.Wait()
		within, cancel := context.WithTimeout(t.Context(), patience)
		if err := s.Close(within); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		cancel()
	}
}
