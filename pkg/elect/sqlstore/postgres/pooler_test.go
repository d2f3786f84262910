package postgres_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/pkg/elect/store/storetest"
)

// Behind a pooler in transaction mode, which may know no prepared statements, all promises hold. Nothing tells of
// changes there: watches look, and the store says so.
func TestPooler(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	pooler := testservers.StartPgBouncer(t, server)
	through := func(uri string) string { return strings.ReplaceAll(uri, server.Addr, pooler.Addr) }
	storetest.Run(
		t, func(*testing.T) storetest.Database {
			return storetest.Database{Open: database(through(server.Database())).Open}
		},
		"create", "replace", "delete", "fields", "ids", "batch of outcomes", "racing writers", "increment", "query",
		"watch", "watch ends", "set-up at once", "unknown outcomes",
	)
	uri := server.Database()
	problems := store.Problems(open(t, through(uri)))
	if len(problems) != 1 || problems[0].Reason != "StorePolled" {
		t.Errorf("problems behind a pooler: %+v, want StorePolled", problems)
	}
	if problems := store.Problems(open(t, uri)); len(problems) > 0 {
		t.Errorf("problems without one: %+v", problems)
	}
}

// A pooler that is restarted is a server that was away for a moment.
func TestPoolerRestarted(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	pooler := testservers.StartPgBouncer(t, server)
	s := openBrief(t, strings.ReplaceAll(server.Database(), server.Addr, pooler.Addr))
	w := write(t, s)
	until(t, s, increment("g"))
	pooler.Kill()
	pooler.Start()
	until(t, s, increment("g"))
	w.check(t, s)
}
