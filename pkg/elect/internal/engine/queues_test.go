package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

func TestOwnersGoBeforeReportsAndTogether(t *testing.T) {
	var b writeQueue
	b.add("g/r", true)
	b.add("g/1", false)
	b.add("g/2", false)
	first, ok := b.next()
	if !ok || first.report || !slices.Equal(first.keys, []record.Key{"g/1", "g/2"}) {
		t.Fatalf("first: %+v, %v", first, ok)
	}
	second, ok := b.next()
	if !ok || !second.report {
		t.Fatalf("second: %+v, %v", second, ok)
	}
	b.add("g/r2", true)
	if _, ok := b.next(); ok {
		t.Error("two batches of reports at once")
	}
	b.done(second)
	if _, ok := b.next(); !ok {
		t.Error("no report after the one before")
	}
}

func TestAtMostFourBatchesAreUnderWay(t *testing.T) {
	var b writeQueue
	for range 5 {
		b.add("g/1", false)
		b.next()
	}
	b.add("g/2", false)
	if _, ok := b.next(); ok {
		t.Fatal("a fifth batch")
	}
	b.done(writeBatch{})
	batch, ok := b.next()
	if !ok || len(batch.keys) != 2 {
		t.Errorf("what came up meanwhile goes out together: %+v", batch)
	}
}

func TestALargeQueueIsCutIntoBatches(t *testing.T) {
	var b writeQueue
	for range driver.MaxBatch + 1 {
		b.add("g/1", false)
	}
	first, _ := b.next()
	second, _ := b.next()
	if len(first.keys) != driver.MaxBatch || len(second.keys) != 1 {
		t.Errorf("%d and %d keys", len(first.keys), len(second.keys))
	}
}

func counterNames(due []counterIncrement) []string {
	var names []string
	for _, d := range due {
		names = append(names, d.Counter)
	}
	slices.Sort(names)
	return names
}

func TestCountersWaitForAHandOverAndForEachOther(t *testing.T) {
	var c counterQueue
	c.add("g", testAt(0))
	if due := c.next(testAt(50 * time.Millisecond)); due != nil {
		t.Fatalf("%v before a hand-over had its time", due)
	}
	due := c.next(testAt(100 * time.Millisecond))
	if got := counterNames(due); !slices.Equal(got, []string{"g"}) {
		t.Fatalf("due: %v", got)
	}
	c.add("h", testAt(110*time.Millisecond))
	if due := c.next(testAt(time.Second)); due != nil {
		t.Fatalf("%v while an increment is under way", due)
	}
	c.done(due, false, testAt(120*time.Millisecond))
	if due := c.next(testAt(300 * time.Millisecond)); due != nil {
		t.Fatalf("%v too soon after the last", due)
	}
	if got := counterNames(c.next(testAt(351 * time.Millisecond))); !slices.Equal(got, []string{"g", "h"}) {
		t.Errorf("one that failed is repeated: %v", got)
	}
}

// A release that somebody may wait for is notified at once, and at most every 100 ms.
func TestAnUrgentIncrementDoesNotWait(t *testing.T) {
	var c counterQueue
	c.addUrgent("g", testAt(0))
	due := c.next(testAt(0))
	if len(due) != 1 {
		t.Fatal("not at once")
	}
	c.done(due, true, testAt(1))
	c.addUrgent("g", testAt(time.Millisecond))
	if due := c.next(testAt(99 * time.Millisecond)); due != nil {
		t.Error("twice within 100 ms")
	}
	if due := c.next(testAt(100 * time.Millisecond)); len(due) != 1 {
		t.Error("not after 100 ms")
	}
}

func TestAnIncrementCarriesTheLargestRevision(t *testing.T) {
	var c counterQueue
	c.mark("g", 7)
	c.mark("g", 5)
	c.mark("g", driver.MaxMark+1) // edited manually: no time
	c.addUrgent("g", testAt(0))
	due := c.next(testAt(0))
	if len(due) != 1 || due[0].Mark != 7 {
		t.Fatalf("%+v, want 7", due)
	}
	c.done(due, false, testAt(1))
	if due := c.next(testAt(time.Second)); len(due) != 1 || due[0].Mark != 7 {
		t.Errorf("%+v after a failure, want 7 again", due)
	}
}

func TestChangesForPeopleAreIncrementedLate(t *testing.T) {
	var c counterQueue
	c.addLate("g")
	due := c.next(testAt(0)) // the first
	due = append(due, c.next(testAt(100*time.Millisecond))...)
	if len(due) != 1 {
		t.Fatalf("%v", due)
	}
	c.done(due, true, testAt(100*time.Millisecond))
	c.addLate("g")
	if due := c.next(testAt(900 * time.Millisecond)); due != nil {
		t.Errorf("%v within a second", due)
	}
}

func TestEventsAreRepeatedAsTheyWere(t *testing.T) {
	var e eventQueue
	ids := &record.WriterIDs{Session: "s"}
	e.note(record.Event{Type: "Moved"}, "s", 1000, testAt(0))
	if sent := e.next(ids, testAt(100*time.Millisecond)); sent != nil {
		t.Fatal("before their delay")
	}
	sent := e.next(ids, testAt(time.Second))
	if len(sent) != 1 {
		t.Fatalf("%d sent", len(sent))
	}
	first := sent[0].Doc
	e.done([]driver.Outcome{{Status: driver.Unknown}}, testAt(2*time.Second))
	if again := e.next(ids, testAt(time.Second)); again != nil {
		t.Error("repeated at once")
	}
	again := e.next(ids, testAt(2*time.Second))
	if len(again) != 1 || again[0].Doc.WriterID != first.WriterID || again[0].Doc.ID != first.ID {
		t.Errorf("repeated as %+v, was %+v", again, first)
	}
	e.done([]driver.Outcome{{Status: driver.Applied}}, testAt(3*time.Second))
	if more := e.next(ids, testAt(time.Minute)); more != nil {
		t.Errorf("still %v", more)
	}
}

func TestEventsAreBounded(t *testing.T) {
	var e eventQueue
	for range 2000 {
		e.note(record.Event{}, "s", 1, testAt(0))
	}
	ids, n := &record.WriterIDs{Session: "s"}, 0
	for {
		sent := e.next(ids, testAt(time.Second))
		if sent == nil {
			break
		}
		n += len(sent)
		e.done(slices.Repeat([]driver.Outcome{{Status: driver.Applied}}, len(sent)), testAt(0))
	}
	if n != 1000 {
		t.Errorf("%d events were kept, want 1000", n)
	}
}
