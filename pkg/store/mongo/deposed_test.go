package mongo_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
)

// A direct connection to a secondary would show old documents, and take no writes.
func wantSecondariesRefused(t *testing.T, rs *testmongo.ReplicaSet, primary *testmongo.Node) {
	t.Helper()
	for _, node := range rs.Nodes() {
		if node == primary {
			continue
		}
		_, err := mongo.Open(t.Context(), mongo.Options{URI: direct(node)})
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "directConnection") {
			t.Errorf("a secondary: %v", err)
		}
	}
}

func direct(node *testmongo.Node) string {
	return "mongodb://" + node.Addr() + "/?directConnection=true"
}

// A primary that does not know yet that it was deposed, and a client that reaches no other, as in a partition. What it
// finds is old, and nothing is reported on the strength of it: neither that a condition does not hold nor what is
// there.
func TestDeposedPrimaryRefusesNothing(t *testing.T) {
	suites.NeedWhole(t, suites.Mongo, "a real replica set")
	t.Parallel()
	rs := testmongo.New(t, testmongo.Options{Own: true})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := &writer{}
	all := storetest.Open(t, driver.Config{URI: rs.URI()})
	kept, gone := w.put(lock("g/kept"), 0), w.put(lock("g/gone"), 0)
	apply(t, all, patient, driver.Applied, kept, gone)

	old, err := rs.Primary(ctx)
	must(t, err)
	cutOff := storetest.Open(t, driver.Config{URI: direct(old)})
	wantSecondariesRefused(t, rs, old)
	must(t, old.Run(
		ctx, bson.D{{Key: "configureFailPoint", Value: "blockHeartbeatStepdown"}, {Key: "mode", Value: "alwaysOn"}},
	).Err())
	old.Freeze()
	_, err = rs.Primary(ctx) // another
	must(t, err)
	newer := w.put(lock("g/kept"), kept.Doc.Rev)
	apply(t, all, patient, driver.Applied, newer, driver.Change{Op: driver.Delete, IfRev: 1, Doc: gone.Doc})
	old.Thaw()

	const limit = 2 * time.Second
	for name, c := range map[string]driver.Change{
		"compare-and-set at the newer revision": w.put(lock("g/kept"), newer.Doc.Rev),
		"creation of what was deleted since":    w.put(lock("g/gone"), 0),
	} {
		ctx, cancel := context.WithTimeout(ctx, limit)
		outs, err := cutOff.Apply(ctx, c)
		cancel()
		if err != nil || outs[0].Status != driver.Unknown {
			t.Errorf("%s: %+v, %v; want an unknown outcome", name, outs, err)
		}
	}
	must(t, old.Run(
		ctx, bson.D{{Key: "configureFailPoint", Value: "blockHeartbeatStepdown"}, {Key: "mode", Value: "off"}},
	).Err())
}
