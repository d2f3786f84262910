package shard_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shardctl/shardctl/pkg/shard"
)

func TestKeysHaveSlotsWithOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		r := s.start("a", shard.Config{Groups: []shard.Group{
			{Name: "tenants", Slots: 4}, {Name: "topics", Keys: names(1)},
		}}, s.work("a"))
		s.shares(map[string]int{"a": 5})
		slot, err := r.Slot("tenants", "tenant-1")
		if err != nil || slot != "tenants/slot-000" || shard.Slot("tenant-1", 4) != 0 {
			t.Fatalf("slot %q, %v, number %d", slot, err, shard.Slot("tenant-1", 4))
		}
		for range r.Watch(t.Context()) {
			if o, ok := r.Owner(slot); ok && o.Instance == "a" {
				break
			}
		}
		for group, want := range map[string]string{"topics": `"topics" has no Slots`, "none": `no group "none"`} {
			if slot, err := r.Slot(group, "tenant-1"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q, %v, want %s", group, slot, err, want)
			}
		}
	})
}

func TestNumbersOfSlotsAreChecked(t *testing.T) {
	_, err := shard.Start(t.Context(), shard.Config{Store: "sqlite:x", Group: "g", Slots: 100_001},
		func(context.Context, shard.Lease) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "Slots 100001, must be from 1 to 100000") {
		t.Errorf("it was taken: %v", err)
	}
}
