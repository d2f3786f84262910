package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

func TestOwnersGoBeforeReportsAndTogether(t *testing.T) {
	var b WriteQueue
	b.Add("g/r", true)
	b.Add("g/1", false)
	b.Add("g/2", false)
	first, ok := b.Next()
	if !ok || first.Report || !slices.Equal(first.Keys, []record.Key{"g/1", "g/2"}) {
		t.Fatalf("first: %+v, %v", first, ok)
	}
	second, ok := b.Next()
	if !ok || !second.Report {
		t.Fatalf("second: %+v, %v", second, ok)
	}
	b.Add("g/r2", true)
	if _, ok := b.Next(); ok {
		t.Error("two batches of reports at once")
	}
	b.Done(second)
	if _, ok := b.Next(); !ok {
		t.Error("no report after the one before")
	}
}

func TestAtMostFourBatchesAreUnderWay(t *testing.T) {
	var b WriteQueue
	for range 5 {
		b.Add("g/1", false)
		b.Next()
	}
	b.Add("g/2", false)
	if _, ok := b.Next(); ok {
		t.Fatal("a fifth batch")
	}
	b.Done(WriteBatch{})
	batch, ok := b.Next()
	if !ok || len(batch.Keys) != 2 {
		t.Errorf("what came up meanwhile goes out together: %+v", batch)
	}
}

func TestALargeQueueIsCutIntoBatches(t *testing.T) {
	var b WriteQueue
	for range store.MaxBatch + 1 {
		b.Add("g/1", false)
	}
	first, _ := b.Next()
	second, _ := b.Next()
	if len(first.Keys) != store.MaxBatch || len(second.Keys) != 1 {
		t.Errorf("%d and %d keys", len(first.Keys), len(second.Keys))
	}
}

func counterNames(due []Increment) []string {
	var names []string
	for _, d := range due {
		names = append(names, d.Counter)
	}
	slices.Sort(names)
	return names
}

func TestCountersWaitForAHandOverAndForEachOther(t *testing.T) {
	var c Counters
	c.Increment("g", testAt(0))
	if due := c.Next(testAt(50 * time.Millisecond)); due != nil {
		t.Fatalf("%v before a hand-over had its time", due)
	}
	due := c.Next(testAt(100 * time.Millisecond))
	if got := counterNames(due); !slices.Equal(got, []string{"g"}) {
		t.Fatalf("due: %v", got)
	}
	c.Increment("h", testAt(110*time.Millisecond))
	if due := c.Next(testAt(time.Second)); due != nil {
		t.Fatalf("%v while an increment is under way", due)
	}
	c.Done(due, false, testAt(120*time.Millisecond))
	if due := c.Next(testAt(300 * time.Millisecond)); due != nil {
		t.Fatalf("%v too soon after the last", due)
	}
	if got := counterNames(c.Next(testAt(351 * time.Millisecond))); !slices.Equal(got, []string{"g", "h"}) {
		t.Errorf("one that failed is repeated: %v", got)
	}
}

// A release that somebody may wait for is notified at once, and at most every 100 ms.
func TestAnUrgentIncrementDoesNotWait(t *testing.T) {
	var c Counters
	c.Urgent("g", testAt(0))
	due := c.Next(testAt(0))
	if len(due) != 1 {
		t.Fatal("not at once")
	}
	c.Done(due, true, testAt(1))
	c.Urgent("g", testAt(time.Millisecond))
	if due := c.Next(testAt(99 * time.Millisecond)); due != nil {
		t.Error("twice within 100 ms")
	}
	if due := c.Next(testAt(100 * time.Millisecond)); len(due) != 1 {
		t.Error("not after 100 ms")
	}
}

func TestAnIncrementCarriesTheLargestRevision(t *testing.T) {
	var c Counters
	c.Mark("g", 7)
	c.Mark("g", 5)
	c.Mark("g", store.MaxMark+1) // edited manually: no time
	c.Urgent("g", testAt(0))
	due := c.Next(testAt(0))
	if len(due) != 1 || due[0].Mark != 7 {
		t.Fatalf("%+v, want 7", due)
	}
	c.Done(due, false, testAt(1))
	if due := c.Next(testAt(time.Second)); len(due) != 1 || due[0].Mark != 7 {
		t.Errorf("%+v after a failure, want 7 again", due)
	}
}

func TestChangesForPeopleAreIncrementedLate(t *testing.T) {
	var c Counters
	c.Late("g")
	due := c.Next(testAt(0)) // the first
	due = append(due, c.Next(testAt(100*time.Millisecond))...)
	if len(due) != 1 {
		t.Fatalf("%v", due)
	}
	c.Done(due, true, testAt(100*time.Millisecond))
	c.Late("g")
	if due := c.Next(testAt(900 * time.Millisecond)); due != nil {
		t.Errorf("%v within a second", due)
	}
}

func TestEventsAreRepeatedAsTheyWere(t *testing.T) {
	var e EventQueue
	ids := &record.WriterIDs{Session: "s"}
	e.Note(record.Event{Type: "Moved"}, "s", 1000, testAt(0))
	if sent := e.Next(ids, testAt(100*time.Millisecond)); sent != nil {
		t.Fatal("before their delay")
	}
	sent := e.Next(ids, testAt(time.Second))
	if len(sent) != 1 {
		t.Fatalf("%d sent", len(sent))
	}
	first := sent[0].Doc
	e.Done([]store.Outcome{{Status: store.Unknown}}, testAt(2*time.Second))
	if again := e.Next(ids, testAt(time.Second)); again != nil {
		t.Error("repeated at once")
	}
	again := e.Next(ids, testAt(2*time.Second))
	if len(again) != 1 || again[0].Doc.WriterID != first.WriterID || again[0].Doc.ID != first.ID {
		t.Errorf("repeated as %+v, was %+v", again, first)
	}
	e.Done([]store.Outcome{{Status: store.Applied}}, testAt(3*time.Second))
	if more := e.Next(ids, testAt(time.Minute)); more != nil {
		t.Errorf("still %v", more)
	}
}

func TestEventsAreBounded(t *testing.T) {
	var e EventQueue
	for range 2000 {
		e.Note(record.Event{}, "s", 1, testAt(0))
	}
	ids, n := &record.WriterIDs{Session: "s"}, 0
	for {
		sent := e.Next(ids, testAt(time.Second))
		if sent == nil {
			break
		}
		n += len(sent)
		e.Done(slices.Repeat([]store.Outcome{{Status: store.Applied}}, len(sent)), testAt(0))
	}
	if n != 1000 {
		t.Errorf("%d events were kept, want 1000", n)
	}
}
