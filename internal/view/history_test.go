package view

import (
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/test/viewtest"
)

// Malformed events are left out, and a page is full all the same: a shorter one would look like the last.
func TestMalformedEventsTakeNoPlace(t *testing.T) {
	db := memory.New()
	for i := range 9 {
		e := record.Event{ID: fmt.Sprintf("%013d-s-%d", i, i), Type: "Moved", Time: int64(i)}
		d := e.Doc(driver.WriterID{Session: "s", Seq: 1})
		if i%3 != 0 {
			d.Body = []byte("no event")
		}
		viewtest.Put(t, db, d)
	}
	for _, oldestFirst := range []bool{false, true} {
		for limit, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 9: 3} {
			events, err := Events(t.Context(), db, snapshot.EventQuery{Limit: limit, OldestFirst: oldestFirst})
			if err != nil || len(events) != want {
				t.Errorf("at most %d, oldest first %t: %d, %v, want %d", limit, oldestFirst, len(events), err, want)
			}
		}
	}
}

const jobs = `
version: 1
instance: a
store: {uri: "sqlite:x.db"}
groups:
  - name: g
    tasks:
      - {name: t1, every: 1m, exec: {command: [date]}}
      - {name: t2, exec: {command: [date]}}
`

func TestTheRunThatGoesOnIsShown(t *testing.T) {
	s := viewtest.Load(t, jobs)
	lock := viewtest.Lock("g/t1", "B", "running")
	lock.Status.LastTick = 2500
	c := viewtest.Cluster(lock, viewtest.Lock("g/t2", "B", "running"))
	db := memory.New()
	runs, err := Runs(t.Context(), db, s, c, "g/t1")
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	want := api.Run{
		ScheduledAt: api.Millis(2500), StartedAt: api.Millis(3000), Result: "Running", Instance: "b",
		FencingToken: 7,
	}
	if runs[0] != want {
		t.Errorf("%+v, want %+v", runs[0], want)
	}
	if runs, err := Runs(t.Context(), db, s, c, "g/t2"); err != nil || len(runs) > 0 {
		t.Errorf("of a task that runs for ever: %+v, %v", runs, err)
	}
}

func TestThePastIsReadFromTheStore(t *testing.T) {
	db := memory.New()
	runs := record.Runs{Key: "g/t1", Rev: 1, List: []record.Run{{Tick: 1, Start: 2, End: 3, Result: record.RunFailed}}}
	event := record.Event{ID: record.EventID(5, "s", 1), Time: 5, Type: record.EventMoved, Key: "g/t1"}
	if outs, err := db.Apply(t.Context(),
		driver.Change{Doc: runs.Doc(driver.WriterID{Session: "s", Seq: 1})},
		driver.Change{Doc: event.Doc(driver.WriterID{Session: "s", Seq: 2})},
	); err != nil || outs[0].Err != nil || outs[1].Err != nil {
		t.Fatal(outs, err)
	}
	p := NewOffline(viewtest.Load(t, jobs), db)
	if got, err := p.Runs(t.Context(), "g/t1"); err != nil || len(got) != 1 || got[0].Result != "Failed" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := p.Events(t.Context(), snapshot.EventQuery{Limit: 10}); err != nil || len(got) != 1 ||
		got[0].Key != "g/t1" {
		t.Errorf("%+v, %v", got, err)
	}
}
