package tasks_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// The libraries in clients are held to the same file.
func TestSlotsAreThoseOfTheVectors(t *testing.T) {
	b, err := os.ReadFile("../../clients/testdata/slots.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Key   string `json:"key"`
		Slots int    `json:"slots"`
		Slot  int    `json:"slot"`
	}
	if err := json.Unmarshal(b, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 20 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		if got := tasks.Slot(v.Key, v.Slots); got != v.Slot {
			t.Errorf("slot of %q among %d: %d, want %d", v.Key, v.Slots, got, v.Slot)
		}
	}
}

func TestSlotNamesHaveTheWidthOfTheLast(t *testing.T) {
	for slots, want := range map[int][]string{
		1: {"slot-000"}, 1000: {"slot-000", "slot-999"}, 1001: {"slot-0000", "slot-1000"},
	} {
		names := tasks.SlotNames(slots)
		if len(names) != slots || names[0] != want[0] || names[slots-1] != want[len(want)-1] || !slices.IsSorted(names) {
			t.Errorf("%d slots: %d names, %s to %s", slots, len(names), names[0], names[len(names)-1])
		}
	}
}

// Keys that count up fill 256 slots evenly: of 100,000 none has more than 1.3 times its share, which is six standard
// deviations.
func TestSlotsAreFilledEvenly(t *testing.T) {
	const keys, slots = 100_000, 256
	var filled [slots]int
	for i := range keys {
		filled[tasks.Slot(fmt.Sprintf("tenant-%d", i), slots)]++
	}
	if most := slices.Max(filled[:]); most > keys*13/10/slots {
		t.Errorf("a slot has %d keys, %d is its share", most, keys/slots)
	}
}

func TestSlotsBelowOnePanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no slots were taken")
		}
	}()
	tasks.Slot("a", 0)
}
