package redis_test

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// makers of a store: one for calls, one for subscriptions.
const makers = 2

// A server may be further away than one call takes to connect to it.
func TestDistant(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	uri := server.Database()
	const trip = 100 * time.Millisecond
	link := testprocess.Far(t, server.Addr, trip)
	storetest.Distant{
		Network: link, Trip: trip, Calls: 3, Connections: 3, WatchEnds: true,
		URI: server.Via(link, uri),
	}.Run(t)
}

// A server without a connection left is asked rarely.
func TestFull(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	uri := server.Database()
	link := server.Link()
	admin := client(t, server.Addr)
	if err := admin.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	limit := func(clients string) {
		if err := admin.ConfigSet(t.Context(), "maxclients", clients).Err(); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Full{
		Network: link, Says: "the last attempt to connect", Makers: makers,
		URI:  server.Via(link, uri),
		Fill: func() { limit("1"); link.Cut() },
		Free: func() { limit("1000") },
	}.Run(t)
}
