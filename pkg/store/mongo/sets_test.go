package mongo_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

// faulty is a set of one node that may be made to misbehave, with an empty database. The tests that use it run one
// after the other.
func faulty(t *testing.T) (*testmongo.ReplicaSet, string, driver.Store) {
	t.Helper()
	rs := testmongo.SharedAs(t, "mongodb with fail points", testmongo.Options{Own: true, Nodes: 1})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := rs.EndFailPoints(ctx); err != nil {
			t.Error(err)
		}
	})
	uri := testmongo.WithDatabase(rs.URI(), "faulty_"+strings.ToLower(rand.Text()[:10]))
	return rs, uri, storetest.Open(t, driver.Config{URI: uri})
}
