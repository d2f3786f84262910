package loop

import "testing"

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestOnlyTheGroupsWaitersWake(t *testing.T) {
	w := newWaiters()
	a, b := w.enter("a"), w.enter("b")
	wokenA, wokenB := a.Woken(), b.Woken()
	w.wake("a", "unknown")
	if !closed(wokenA) || closed(wokenB) {
		t.Errorf("a woken: %v, b woken: %v, want true and false", closed(wokenA), closed(wokenB))
	}
	if closed(a.Woken()) {
		t.Error("a wake-up was kept for the next wait")
	}
	w.wake()
	if !closed(wokenB) {
		t.Error("waking all left b asleep")
	}
}

func TestAGroupGoesWithItsLastWaiter(t *testing.T) {
	w := newWaiters()
	first, second := w.enter("a"), w.enter("a")
	w.leave(first)
	if n := len(w.groups); n != 1 {
		t.Fatalf("%d groups while one waits, want 1", n)
	}
	w.leave(second)
	if n := len(w.groups); n != 0 {
		t.Errorf("%d groups after the last has left, want 0", n)
	}
}
