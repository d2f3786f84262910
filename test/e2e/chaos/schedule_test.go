package chaos

import (
	"reflect"
	"testing"
	"time"
)

func TestScheduleIsAFunctionOfTheSeed(t *testing.T) {
	for _, store := range []string{MongoDB, SQLite} {
		if a, b := Schedule(store, 7, time.Minute), Schedule(store, 7, time.Minute); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: one seed, two schedules:\n%v\n%v", store, a, b)
		}
		if a, b := Schedule(store, 7, time.Minute), Schedule(store, 8, time.Minute); reflect.DeepEqual(a, b) {
			t.Errorf("%s: two seeds, one schedule", store)
		}
	}
}

func TestEveryKindOccurs(t *testing.T) {
	for _, store := range []string{MongoDB, SQLite} {
		seen := map[Kind]int{}
		for seed := range uint64(10) {
			for _, f := range Schedule(store, seed, 2*time.Minute) {
				seen[f.Kind]++
			}
		}
		for _, kind := range deck(store) {
			if seen[kind] == 0 {
				t.Errorf("%s: %q never occurs", store, kind)
			}
			if _, known := reach[kind]; !known {
				t.Errorf("%q has no scope", kind)
			}
		}
	}
}

func TestAMinuteHoldsManyFaults(t *testing.T) {
	for _, store := range []string{MongoDB, SQLite} {
		for seed := range uint64(50) {
			if n := len(Schedule(store, seed, time.Minute)); n < 20 {
				t.Errorf("%s: seed %d has %d faults a minute", store, seed, n)
			}
		}
	}
}

// What is promised is known only where one replica suffers one fault at a time.
func TestFaultsOfOneScopeDoNotMeet(t *testing.T) {
	for _, store := range []string{MongoDB, SQLite} {
		for seed := range uint64(50) {
			faults := Schedule(store, seed, 3*time.Minute)
			for i, f := range faults {
				if f.At+f.For > 3*time.Minute {
					t.Fatalf("%s: seed %d: %v at %v does not end in time", store, seed, f, f.At)
				}
				for _, g := range faults[i+1:] {
					if g.At < f.At {
						t.Fatalf("%s: seed %d: not in order of time", store, seed)
					}
					if g.At < f.At+f.For+rest && meet(f, g) {
						t.Fatalf("%s: seed %d: %v at %v meets %v at %v", store, seed, f, f.At, g, g.At)
					}
				}
			}
		}
	}
}

func meet(f, g Fault) bool {
	a, b := reach[f.Kind], reach[g.Kind]
	replicas := func(s scope) bool { return s == oneReplica || s == allReplicas || s == everything }
	store := func(s scope) bool { return s == theStore || s == everything }
	switch {
	case store(a) && store(b):
		return true
	case a == oneReplica && b == oneReplica:
		return f.Slot == g.Slot
	default:
		return replicas(a) && replicas(b)
	}
}
