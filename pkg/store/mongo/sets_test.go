package mongo_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/test/testmongo"
)

// kept are sets that several tests use; starting one costs more than most of them do. TestMain ends them.
var kept keptSets

type keptSets struct {
	mu   sync.Mutex
	sets map[string]*testmongo.ReplicaSet
}

// set is the one of that name, started by the first test that asks for it.
func (k *keptSets) set(t *testing.T, name string, opts testmongo.Options) *testmongo.ReplicaSet {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if rs := k.sets[name]; rs != nil {
		return rs
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	defer cancel()
	rs, err := testmongo.Start(ctx, opts)
	must(t, err)
	if k.sets == nil {
		k.sets = map[string]*testmongo.ReplicaSet{}
	}
	k.sets[name] = rs
	return rs
}

// close ends all sets; failed shows what they said last.
func (k *keptSets) close(failed bool) {
	for name, rs := range k.sets {
		if failed {
			fmt.Fprintln(os.Stderr, name, rs.LogTail(5))
		}
		rs.Close()
	}
}

// faulty is a set of one node that may be made to misbehave, with an empty database. The tests that use it run one
// after the other.
func faulty(t *testing.T) (*testmongo.ReplicaSet, string, store.Store) {
	t.Helper()
	rs := kept.set(t, "faulty", testmongo.Options{Own: true, Nodes: 1})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := rs.EndFailPoints(ctx); err != nil {
			t.Error(err)
		}
	})
	uri := testmongo.WithDatabase(rs.URI(), "faulty_"+strings.ToLower(rand.Text()[:10]))
	return rs, uri, open(t, mongo.Options{URI: uri})
}
