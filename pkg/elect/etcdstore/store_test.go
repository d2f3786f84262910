package etcdstore_test

import (
	"testing"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/elect/store/storetest"
)

func TestStore(t *testing.T) {
	server := testservers.Shared(t, testservers.KindEtcd)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return database(t, server.Database())
	})
}
