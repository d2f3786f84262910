package etcd_test

import (
	"math/rand/v2"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestStore(t *testing.T) {
	server := testservers.Shared(t, testservers.KindEtcd)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return database(t, server.Database())
	})
}

// Lists that fail half-way leave nothing out of later ones.
func TestListsAreCompleteWhileOthersFail(t *testing.T) {
	server := testservers.Shared(t, testservers.KindEtcd)
	uri := server.Database()
	link := server.Link()
	writer := storetest.Open(t, driver.Config{URI: uri})
	lister := storetest.Open(t, driver.Config{URI: server.Via(link, uri)})
	storetest.CompleteLists(t, writer, lister, func(random *rand.Rand) {
		if random.IntN(5) == 0 {
			link.Cut()
		}
	})
}
