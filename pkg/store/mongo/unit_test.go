package mongo

import (
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

func TestKeyedByID(t *testing.T) {
	for _, tc := range []struct {
		key  bson.D
		want bool
	}{
		{bson.D{{Key: "_id", Value: 1}}, true},
		{bson.D{{Key: "_id", Value: "hashed"}}, true},
		{bson.D{{Key: "group", Value: 1}}, false},
		{bson.D{{Key: "_id", Value: 1}, {Key: "group", Value: 1}}, false},
		{nil, false},
	} {
		if got := keyedByID(tc.key); got != tc.want {
			t.Errorf("keyedByID(%v) = %v", tc.key, got)
		}
	}
}

func TestBatchesHoldOneSortOfThing(t *testing.T) {
	var changes []store.Change
	for i := range int64(1000) {
		changes = append(changes,
			store.Change{Op: store.Put, IfRev: i % 2, Doc: store.Doc{Kind: store.KindLock}},
			store.Change{Op: store.Delete, IfRev: 1, Doc: store.Doc{Kind: store.KindSession}})
	}
	seen := map[int]bool{}
	all := batches(changes)
	for _, b := range all {
		if len(b.changes) > store.MaxBatch || len(b.changes) != len(b.places) {
			t.Fatalf("a batch of %d with %d places", len(b.changes), len(b.places))
		}
		for n, c := range b.changes {
			if first := b.changes[0]; c.Op != first.Op || c.Doc.Kind != first.Doc.Kind ||
				(c.IfRev == 0) != (first.IfRev == 0) {
				t.Fatalf("%+v and %+v", c, first)
			}
			if seen[b.places[n]] || changes[b.places[n]].IfRev != c.IfRev {
				t.Fatalf("place %d is wrong", b.places[n])
			}
			seen[b.places[n]] = true
		}
	}
	if len(seen) != len(changes) || len(all) != 3+3+5 {
		t.Errorf("%d of %d changes in %d batches, want 11", len(seen), len(changes), len(all))
	}
}

func TestCreditDeletes(t *testing.T) {
	change := store.Change{Op: store.Delete, IfRev: 4, Doc: store.Doc{Kind: store.KindLock, ID: "g/a"}}
	at := func(rev int64) engine.Result {
		return engine.Result{Found: &store.Doc{Kind: store.KindLock, ID: "g/a", Rev: rev}}
	}
	gone, there, again := engine.Result{}, at(3), at(5) // there, and perhaps created again since
	for _, tc := range []struct {
		deleted int
		want    bool
	}{{2, true}, {1, false}, {0, false}} {
		found := []engine.Result{gone, there, gone}
		creditDeletes(slices.Repeat([]store.Change{change}, 3), found, tc.deleted)
		if found[0].Written != tc.want || found[2].Written != tc.want || found[1].Written {
			t.Errorf("%d deleted, 2 absent: %v", tc.deleted, found)
		}
	}
	found, changes := []engine.Result{gone, again}, []store.Change{change, change}
	if creditDeletes(changes, found, 1); found[0].Written {
		t.Error("credited a delete although the one that happened may be the other")
	}
	if creditDeletes(changes, found, 2); !found[0].Written || !found[1].Written {
		t.Errorf("both happened: %v", found)
	}
}

func TestClock(t *testing.T) {
	var c clock
	sent := time.Now()
	c.sample(1_000_000, sent)
	if got := c.now(sent); got != 1_000_000 {
		t.Errorf("at once: %d", got)
	}
	// never ahead, however fast the local clock is
	if got := c.now(sent.Add(2200 * time.Millisecond)); got != 1_002_000 {
		t.Errorf("2.2 s later: %d", got)
	}
	c.sample(500_000, sent) // a new primary, whose clock is behind
	if got := c.now(sent); got != 500_000 {
		t.Errorf("after a failover: %d", got)
	}
}

func TestScrub(t *testing.T) {
	hidden := secretParams.Of("mongodb://user:p%40ss@h/?authMechanismProperties=AWS_SESSION_TOKEN:tok")
	got := storeuri.Scrub("p%40ss or p@ss and AWS_SESSION_TOKEN:tok", hidden)
	if want := "xxxxx or xxxxx and xxxxx"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
