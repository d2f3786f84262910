package mongo

import (
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
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
	var changes []driver.Change
	for i := range int64(1000) {
		changes = append(changes,
			driver.Change{Op: driver.Put, IfRev: i % 2, Doc: driver.Doc{Kind: driver.KindLock}},
			driver.Change{Op: driver.Delete, IfRev: 1, Doc: driver.Doc{Kind: driver.KindSession}})
	}
	seen := map[int]bool{}
	all := batches(changes)
	for _, places := range all {
		if len(places) > driver.MaxBatch {
			t.Fatalf("a batch of %d", len(places))
		}
		for _, i := range places {
			if c, first := changes[i], changes[places[0]]; c.Op != first.Op || c.Doc.Kind != first.Doc.Kind ||
				(c.IfRev == 0) != (first.IfRev == 0) {
				t.Fatalf("%+v and %+v", c, first)
			}
			seen[i] = true
		}
	}
	if len(seen) != len(changes) || len(all) != 3+3+5 {
		t.Errorf("%d of %d changes in %d batches, want 11", len(seen), len(changes), len(all))
	}
}

func TestDeletesThatHappenedAreCounted(t *testing.T) {
	change := func(id string) driver.Change {
		return driver.Change{Op: driver.Delete, IfRev: 4, Doc: driver.Doc{Kind: driver.KindLock, ID: id}}
	}
	changes := []driver.Change{change("gone"), change("there"), change("gone too"), change("again")}
	there, again := driver.Doc{ID: "there", Rev: 3}, driver.Doc{ID: "again", Rev: 5} // perhaps created again since
	for _, tc := range []struct {
		places  []int
		deleted int
		want    []int
	}{
		{[]int{0, 1, 2}, 2, []int{0, 2}},
		{[]int{0, 1, 2}, 1, nil},
		{[]int{0, 1, 2}, 0, nil},
		{[]int{0, 3}, 1, nil}, // the one that happened may be the other
		{[]int{0, 3}, 2, []int{0, 3}},
	} {
		if got := deletesOf(changes, tc.places, []driver.Doc{there, again}, tc.deleted); !slices.Equal(got, tc.want) {
			t.Errorf("%d of %v deleted: %v, want %v", tc.deleted, tc.places, got, tc.want)
		}
	}
}

func TestClock(t *testing.T) {
	var c serverClock
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
