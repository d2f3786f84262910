package mongo_test

import (
	"context"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testmongo"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/mongo"
)

// A collection that somebody drops comes back with its indexes.
func TestDroppedCollectionIsMadeAgain(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	s := open(t, mongo.Options{URI: uri})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	notifications, err := s.Watch(ctx, store.Interest{Session: "s1"})
	must(t, err)
	<-notifications
	locks := rawDatabase(t, uri).Collection("default.locks")
	before, err := locks.Indexes().ListSpecifications(t.Context())
	must(t, err)
	must(t, locks.Drop(t.Context()))
	if h := <-notifications; !h.Resync {
		t.Errorf("notification %+v, want a resync", h)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		after, err := locks.Indexes().ListSpecifications(t.Context())
		must(t, err)
		if len(after) == len(before) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d indexes are back", len(after), len(before))
		}
	}
}
