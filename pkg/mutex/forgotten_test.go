package mutex_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// Mutexes whose holders and waiters have died, and that nobody asks for again, go from the store. Those that the living
// hold stay, and lose the dead alone.
func TestMutexesOfTheDeadAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		living, doomed := leased(t, db.Client(), "living", 2*time.Minute), db.Client()
		dying := leased(t, doomed, "dying", 2*time.Minute)
		shared := must(t)(living.Semaphore("shared", 3).Lock(t.Context()))
		held := must(t)(living.Mutex("held").Lock(t.Context()))
		for _, m := range []mutex.Mutex{dying.Mutex("alone"), dying.Semaphore("two", 2), dying.Semaphore("shared", 3)} {
			must(t)(m.Lock(t.Context()))
		}
		must(t)(dying.Semaphore("two", 2).Lock(t.Context()))
		for _, name := range []string{"held", "alone"} {
			go func() { _, _ = dying.Mutex(name).Lock(t.Context()) }()
		}
		synctest.Wait()
		doomed.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })

		time.Sleep(2 * time.Hour)
		wantDocs(t, db, map[string][2]int{"alone": {0, 0}, "two": {0, 0}, "held": {1, 0}, "shared": {1, 0}})
		time.Sleep(24 * time.Hour)
		wantDocs(t, db, map[string][2]int{"held": {1, 0}, "shared": {1, 0}})
		unlock(t, shared)
		unlock(t, held)
		doomed.Fault(nil)
	})
}

// wantDocs says which mutexes there are, with how many holders and tickets.
func wantDocs(t *testing.T, db *memory.Store, want map[string][2]int) {
	t.Helper()
	all, err := db.List(t.Context(), store.KindMutex, store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range all.Docs {
		is, err := record.MutexFrom(d)
		name := record.MutexName(d.ID)
		names = append(names, name)
		if got := [2]int{len(is.Holders), len(is.Queue)}; err != nil || got != want[name] {
			t.Errorf("%s has %d holders and %d tickets, want %v: %v", name, got[0], got[1], want[name], err)
		}
	}
	if len(names) != len(want) {
		t.Errorf("mutexes %v, want %d", slices.Sorted(slices.Values(names)), len(want))
	}
}
