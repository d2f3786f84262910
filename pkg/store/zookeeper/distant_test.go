package zookeeper_test

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// A server may be further away than one call takes to connect to it.
func TestDistant(t *testing.T) {
	server := testservers.Shared(t, testservers.KindZooKeeper)
	const trip = 100 * time.Millisecond
	link := testprocess.Far(t, server.Addr, trip)
	storetest.Distant{
		Network: link, Trip: trip, Calls: 3, Connections: 3, WatchEnds: true,
		URI: server.Via(link, server.Database()),
	}.Run(t)
}
