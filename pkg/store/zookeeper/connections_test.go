package zookeeper_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/pkg/store/zookeeper"
	"github.com/shardctl/shardctl/test/testservers"
)

// connections are how many a server says that it has, without the one that asks.
func connections(t *testing.T, addr string) int {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: patient}).DialContext(t.Context(), "tcp", addr)
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(patient)))
	_, err = io.WriteString(conn, "srvr")
	must(t, err)
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var n int
		if _, err := fmt.Sscanf(strings.TrimSpace(lines.Text()), "Connections: %d", &n); err == nil {
			return n - 1
		}
	}
	t.Fatal("it does not say how many connections it has")
	return 0
}

// A replica has one connection for all that it does at once, and its guard one more.
func TestOneConnectionAReplica(t *testing.T) {
	server := testservers.Start(t, testservers.KindZooKeeper)
	uri := server.Database()
	has := func(what string, want int) {
		t.Helper()
		await(t, fmt.Sprintf("%d connections %s", want, what), func() bool {
			return connections(t, server.Addr) == want
		})
	}
	has("before", 0)
	s := storetest.Open(t, driver.Config{URI: uri})
	for range 3 {
		_, err := s.Watch(t.Context(), driver.Interest{Session: "me"})
		must(t, err)
	}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			id := fmt.Sprint("g/", i)
			_, applied := s.Apply(t.Context(), put(lock(id), 0))
			_, read := s.Read(t.Context(), driver.KindLock, id)
			_, listed := s.List(t.Context(), driver.KindLock, driver.Query{})
			for _, err := range []error{applied, read, listed} {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := connections(t, server.Addr); n != 1 {
		t.Errorf("%d connections of a replica, want 1", n)
	}
	_, err := store.Inspect(t.Context(), s)
	must(t, err)
	has("after an inspection", 1)
	guard, err := zookeeper.Open(t.Context(), zookeeper.Options{URI: uri, Timeout: patient, Existing: true})
	must(t, err)
	apply(t.Context(), t, guard, driver.Applied, put(lock("g/guard"), 0))
	if n := connections(t, server.Addr); n != 2 {
		t.Errorf("%d connections with a guard, want 2", n)
	}
	must(t, guard.Close(context.Background()))
	has("after the guard has gone", 1)
}
