package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// Fifty replicas with a watch each, all of which call at once, and whose guards mark their sessions then, keep to the
// connections that docs/stores/postgresql.md says to leave free.
func TestConnectionsOfFiftyReplicas(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	const replicas, most = 50, 300
	server := testservers.Start(t, testservers.KindPostgres, fmt.Sprint("max_connections = ", most), "fsync = off")
	uri := server.Database()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var all, marked sync.WaitGroup
	done := make(chan struct{}) // closed when all have called
	for i := range replicas {
		marked.Add(1)
		all.Go(func() {
			s, guard := replica(ctx, t, uri)
			if s != nil && guard != nil {
				callAll(t, fmt.Sprint(i), s, s, s, guard) //nolint:contextcheck // each call has its own
			}
			marked.Done()
			<-done
			for _, one := range []driver.Store{s, guard} {
				if one != nil && one.Close(ctx) != nil {
					t.Error("not closed")
				}
			}
		})
	}
	marked.Wait()
	n, err := postgres.Value(ctx, uri, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shardctl'`)
	t.Logf("%d replicas and their guards have %d connections", replicas, n)
	if err != nil || n < 3*replicas || n > 5*replicas {
		t.Errorf("%d connections, %v; want %d to %d", n, err, 3*replicas, 5*replicas)
	}
	close(done)
	all.Wait()
}

// replica opens the stores of a replica and of its guard; nil where it failed.
func replica(ctx context.Context, t *testing.T, uri string) (s, guard driver.Store) {
	t.Helper()
	s, err := postgres.Open(ctx, postgres.Options{URI: uri})
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	if _, err := s.Watch(ctx, driver.Interest{}); err != nil {
		t.Error(err)
	}
	if guard, err = postgres.Open(ctx, postgres.Options{URI: uri, Existing: true}); err != nil {
		t.Error(err)
	}
	return s, guard
}

// callAll writes by all at once.
func callAll(t *testing.T, group string, stores ...driver.Store) {
	t.Helper()
	var calls sync.WaitGroup
	for i, one := range stores {
		calls.Go(func() { ends(t, one, patience, driver.Applied, increment(fmt.Sprint(group, "/", i))) })
		calls.Go(func() { ends(t, one, patience, driver.Applied, storetest.Heartbeat(fmt.Sprint(group, "-", i), 0)) })
	}
	calls.Wait()
}
