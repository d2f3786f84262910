package operate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

const (
	minute = int64(60_000)
	hour   = 60 * minute
	day    = 24 * hour
	today  = 1000 * day
)

func TestWhatTimeDoesToOverrides(t *testing.T) {
	live := []elect.Member{{Instance: "web-1", Zone: "eu"}, {Instance: "b"}}
	asked := func(kind record.OverrideKind, scope record.Scope, name, to string, seen int64) record.Override {
		return record.Override{Kind: kind, Scope: scope, Name: name, To: to, Seen: seen, At: seen, Rev: 5}
	}
	drain := func(name string, seen int64) record.Override {
		return asked(record.OverrideDrain, record.ScopeInstance, name, "", seen)
	}
	pin := func(to string, seen int64) record.Override {
		return asked(record.OverridePin, record.ScopeTask, "g/1", to, seen)
	}
	strict := pin("gone", today-9*day)
	strict.Strict = true
	for name, test := range map[string]struct {
		override record.Override
		want     string // seen, forget, expire, or nothing
	}{
		"of one that lives, noted lately":   {drain("b", today-59*minute), ""},
		"of one that lives":                 {drain("b", today-hour), "seen"},
		"of one that lives, noted long ago": {drain("b", today-9*day), "seen"},
		"gone for less than a day":          {drain("gone", today-day+1), ""},
		"gone for a day":                    {drain("gone", today-day), "forget"},
		"a cordon": {
			asked(record.OverrideCordon, record.ScopeInstance, "gone", "", today-day), "forget",
		},
		"never noted":                        {drain("gone", 0), "seen"},
		"noted by a clock that stepped back": {drain("gone", today+1), "seen"},
		"a pin":                              {pin("gone", today-day), "forget"},
		"a pin to a pattern with one":        {pin("web-*", today-day), "seen"},
		"a pin to a pattern with none":       {pin("db-*", today-day), "forget"},
		"a pin to a zone with one":           {pin("zone=eu", today-day), "seen"},
		"a pin to a zone with none":          {pin("zone=us", today-day), "forget"},
		"a strict pin":                       {strict, ""},
		"a pause": {
			asked(record.OverridePause, record.ScopeTask, "g/1", "", today-9*day), "",
		},
		"a request for one effect": {asked(
			record.OverrideRestart, record.ScopeTask, "g/1", "", today-day+1,
		), ""},
		"a request for one effect, a day old": {asked(
			record.OverrideMove, record.ScopeTask, "g/1", "b", today-day,
		), "expire"},
		"a rebalance, a day old": {
			asked(record.OverrideRebalance, record.ScopeGroup, "g", "", today-day), "expire",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := operate.Tend([]record.Override{test.override}, live, today)
			text := strings.Repeat("seen", len(got.Seen)) + strings.Repeat("forget", len(got.Forget)) +
				strings.Repeat("expire", len(got.Expire))
			if text != test.want {
				t.Errorf("%q, want %q", text, test.want)
			}
		})
	}
}

// What is out of date is deleted once, with an event, and replicas hear of it. What was asked for again stays.
func TestWhatIsOutOfDateIsForgotten(t *testing.T) {
	now := today
	db := memory.New(memory.WithClock(func() time.Time { return time.UnixMilli(now) }))
	w := operate.NewWriter(db)
	s := state()
	for _, r := range []operate.Request{
		instance(api.Drain, "a"), instance(api.Drain, "c"), to(task(api.Pin, "g/1"), "c", false),
		to(task(api.Pin, "g/2"), "c", true), task(api.Pause, "g/3"), task(api.Restart, "g/1"),
	} {
		if err := w.Write(t.Context(), r, operate.Decide(s, r)); err != nil {
			t.Fatal(err)
		}
	}
	live := []elect.Member{{Instance: "a"}, {Instance: "b"}}
	tend := func(after int64) {
		t.Helper()
		now += after
		if _, err := w.Tend(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (ids []string, counter int64) {
		t.Helper()
		res, err := db.List(t.Context(), driver.KindOverride, driver.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range res.Docs {
			ids = append(ids, d.ID)
		}
		count, err := db.Read(t.Context(), driver.KindGroup, record.CounterOverrides)
		if err != nil || len(count.Docs) != 1 {
			t.Fatalf("%+v, %v", count, err)
		}
		return ids, count.Docs[0].Count
	}
	_, before := left()
	tend(23 * hour)
	if ids, counter := left(); len(ids) != 6 || counter != before {
		t.Fatalf("after 23 h: %v, counter %d, was %d", ids, counter, before)
	}
	tend(hour)
	ids, counter := left()
	want := []string{"drain/instance/a", "pause/task/g/3", "pin/task/g/2"}
	if !slices.Equal(ids, want) || counter == before {
		t.Fatalf("after a day: %v, want %v; counter %d, was %d", ids, want, counter, before)
	}
	tend(9 * day)
	if ids, _ := left(); !slices.Equal(ids, want) {
		t.Errorf("after ten days: %v, want %v", ids, want)
	}
	events, err := db.List(t.Context(), driver.KindEvent, driver.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var noted []string
	for _, doc := range events.Docs {
		if e, err := record.EventFrom(doc); err == nil && e.Type == operate.EventForgotten {
			noted = append(noted, fmt.Sprint(e.Reason, " ", e.From, e.Key, " ", e.Message))
		}
	}
	slices.Sort(noted)
	if len(noted) != 2 || !strings.HasPrefix(noted[0], "Drain c ") || !strings.HasPrefix(noted[1], "Pin g/1 ") ||
		!strings.Contains(noted[0], "by bob") {
		t.Errorf("%q", noted)
	}
}

// An override that was asked for again between the look and the deletion stays.
func TestWhatIsAskedForAgainIsNotForgotten(t *testing.T) {
	now := today
	db := memory.New(memory.WithClock(func() time.Time { return time.UnixMilli(now) }))
	w := operate.NewWriter(db)
	r := instance(api.Drain, "c")
	if err := w.Write(t.Context(), r, operate.Decide(state(), r)); err != nil {
		t.Fatal(err)
	}
	now += day
	asked := false
	db.Fault(func(c memory.Call) memory.Verdict {
		if c.Op == memory.OpApply && !asked {
			asked = true
			if err := operate.NewWriter(db).Write(t.Context(), r, operate.Decide(state(), r)); err != nil {
				t.Error(err)
			}
		}
		return memory.Verdict{}
	})
	if _, err := w.Tend(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	res, err := db.List(t.Context(), driver.KindOverride, driver.Query{})
	if err != nil || len(res.Docs) != 1 || !asked {
		t.Errorf("%+v, %v: want the drain that was asked for again", res.Docs, err)
	}
}

// What ends by itself is taken back once its time is over by the store's clock: once, with an event, and of a pause
// with its end. What was asked for again stays.
func TestWhatIsOverEnds(t *testing.T) {
	now := today
	db := memory.New(memory.WithClock(func() time.Time { return time.UnixMilli(now) }))
	replicas := []*operate.Writer{operate.NewWriter(db), operate.NewWriter(db)}
	for _, r := range []operate.Request{
		within(task(api.Pause, "g/1"), time.Hour), within(to(task(api.Pin, "g/2"), "a", true), time.Hour),
		within(instance(api.Drain, "a"), 2*time.Hour), within(task(api.Pause, "g/3"), time.Hour),
		task(api.Pause, "g/4"),
	} {
		if err := replicas[0].Write(t.Context(), r, operate.Decide(state(), r)); err != nil {
			t.Fatal(err)
		}
	}
	at := func(ms int64, want ...string) {
		t.Helper()
		now = ms
		for _, w := range replicas {
			if err := w.End(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var left []string
		for _, o := range stored(t, db) {
			if left = append(left, o.ID()); o.Kind == record.OverrideResume && o.Resumed() != today+hour {
				t.Errorf("%s ended at %d, want %d", o, o.Resumed(), today+hour)
			}
		}
		if !slices.Equal(left, want) {
			t.Errorf("left are %v, want %v", left, want)
		}
	}
	at(today+hour-1, "drain/instance/a", "pause/task/g/1", "pause/task/g/3", "pause/task/g/4", "pin/task/g/2")
	again := within(task(api.Pause, "g/3"), 2*time.Hour)
	if err := replicas[1].Write(t.Context(), again, operate.Decide(state(), again)); err != nil {
		t.Fatal(err)
	}
	at(today+hour+5, "drain/instance/a", "pause/task/g/3", "pause/task/g/4", "resume/task/g/1")
	at(today+2*hour, "pause/task/g/3", "pause/task/g/4", "resume/task/g/1")
	events, err := db.List(t.Context(), driver.KindEvent, driver.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var noted []string
	for _, doc := range events.Docs {
		if e, err := record.EventFrom(doc); err == nil && e.Type == operate.EventEnded {
			noted = append(noted, fmt.Sprint(e.Reason, " ", e.From, e.Key, " ", e.Message))
		}
	}
	slices.Sort(noted)
	want := []string{
		"Drain a it was asked for until 1972-09-27T02:00:00Z by bob",
		"Pause g/1 it was asked for until 1972-09-27T01:00:00Z by bob",
		"Pin g/2 it was asked for until 1972-09-27T01:00:00Z by bob",
	}
	if !slices.Equal(noted, want) {
		t.Errorf("%q, want %q", noted, want)
	}
}

// A pause is not taken back before its resume stands: ticks that were missed in it would be run.
func TestAPauseEndsWithItsResume(t *testing.T) {
	now := today
	db := memory.New(memory.WithClock(func() time.Time { return time.UnixMilli(now) }))
	w := operate.NewWriter(db)
	r := within(task(api.Pause, "g/1"), time.Hour)
	if err := w.Write(t.Context(), r, operate.Decide(state(), r)); err != nil {
		t.Fatal(err)
	}
	now += hour
	applied := 0
	db.Fault(func(c memory.Call) memory.Verdict {
		if c.Op != memory.OpApply {
			return memory.Verdict{}
		}
		applied++
		return memory.Verdict{Fault: memory.LoseRequest}
	})
	_ = w.End(t.Context()) // the resume could not be written
	db.Fault(nil)
	if left := stored(t, db); applied == 0 || len(left) != 1 || left[0].Kind != record.OverridePause {
		t.Errorf("%v after %d attempts: want the pause", left, applied)
	}
	if err := w.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := stored(t, db); len(left) != 1 || left[0].Kind != record.OverrideResume {
		t.Errorf("%v: want the resume", left)
	}
}

// stored are the overrides in the store.
func stored(t *testing.T, db store.Store) []record.Override {
	t.Helper()
	res, err := db.List(t.Context(), driver.KindOverride, driver.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var list []record.Override
	for _, d := range res.Docs {
		o, err := record.OverrideFrom(d)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, o)
	}
	return list
}
