package record_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

// mark is what becomes of a moment that was taken from a clock which was a year ahead.
type mark struct {
	// bound is how far ahead it still counts, and what follows beyond that.
	bound string
	// test tries it: a file and a function. Empty: nothing is decided by it.
	file, test string
}

const farAhead = "TestMarksOfAClockThatWasFarAhead"

func shown(what string) mark { return mark{bound: "shown only: " + what} }

// marks are all moments of the records.
func marks() map[string]mark {
	tasks := func(bound string) mark { return mark{bound, "internal/supervisor/job/ahead_test.go", farAhead} }
	operate := func(bound string) mark { return mark{bound, "internal/operate/ahead_test.go", farAhead} }
	view := func(bound string) mark { return mark{bound, "internal/view/ahead_test.go", farAhead} }
	clean := func(bound string) mark {
		return mark{bound, "pkg/elect/clean_test.go", "TestEventsAndDeathsOfAClockThatWasFarAhead"}
	}
	runs := func(bound string) mark {
		return mark{bound, "internal/runs/keeper_test.go", "TestRunsOfAClockThatWasFarAhead"}
	}
	return map[string]mark{
		"Session.Died":  clean("now: it is dated again"),
		"Session.Clock": view("now: no age is below 0"),

		"Member.Opened": {"MostAhead: the oldest", "internal/reconcile/ahead_test.go", farAhead},

		"Member.Problems.Since":       shown("its instance makes the list anew"),
		"Member.Application.Since":    shown("its instance writes it anew"),
		"Member.Application.Stopping": shown("its instance writes it anew"),

		"Lock.Since": {"restartGrace, and the hold of weights", "internal/reconcile/ahead_test.go", farAhead},

		"Lock.Status.Since":     tasks("the next state"),
		"Lock.Status.NextRunAt": tasks("the next owner writes it anew"),
		"Lock.Status.LastTick":  tasks("MostAhead: ticks count from now on"),
		"Lock.Status.TicksTo":   tasks("now"),
		"Lock.Status.FirstSeen": tasks("now"),
		"Lock.Status.TroubleSince": {
			"troubledAfter: it lasts", "internal/view/problems_test.go", "TestTroubleOfARunThatGoesOn",
		},
		"Lock.Status.LastTrigger": {
			"a new trigger is above it", "internal/operate/ahead_test.go", "TestTriggersAfterAClockThatWasFarAhead",
		},
		"Lock.Status.Outcome.At": shown("outcomes count by their token"),

		"Override.At":    operate("MostAhead: it counts as of now"),
		"Override.Seen":  operate("now"),
		"Override.Until": operate("moved with At"),

		"Event.Time": clean("MostAhead: it counts as of now"),

		"Runs.List.Tick":  runs("moved with Start"),
		"Runs.List.Start": runs("MostAhead: it counts as of now"),
		"Runs.List.End":   runs("moved with Start"),

		"Move.At": shown("a move counts by its state"),

		"MutexDoc.Holders.Until": shown("its process ends it by a steady clock"),
		"MutexDoc.Holders.Since": shown("since when it is held"),
		"MutexDoc.Hold.UntilMs": {
			"its length: it lasts so long from now on", "pkg/mutex/ahead_test.go",
			"TestHoldAtLeastByAClockThatWasFarAhead",
		},
	}
}

// others are whole numbers that are no moments.
func others() []string {
	return []string{
		"Session.Rev", "Session.WriterID.Seq", "Session.Heartbeat", "Session.Remote",
		"Member.Rev", "Member.ListRevision", "Member.WeightRevisions", "Member.LeaseMS",
		"Lock.Rev", "Lock.WriterID.Seq", "Lock.Token", "Lock.Status.Outcome.Token", "Lock.Status.Lag.Messages",
		"Lock.Status.Lag.Seconds",
		"Override.Rev", "Override.Token",
		"Event.Token",
		"Runs.Rev", "Runs.List.Token",
		"Move.Rev",
		"MutexDoc.Rev", "MutexDoc.Holders.Token", "MutexDoc.Queue.Seen", "MutexDoc.Hold.ForMs", "MutexDoc.Hold.Token",
		"MutexDoc.Exclusive", "MutexDoc.Shared",
	}
}

// Each moment that a document keeps has a bound, or decides nothing. A new field has to say which.
func TestEachMomentHasABound(t *testing.T) {
	var fields []string
	for _, of := range []reflect.Type{
		reflect.TypeFor[record.Session](), reflect.TypeFor[record.Member](), reflect.TypeFor[record.Lock](),
		reflect.TypeFor[record.Override](), reflect.TypeFor[record.Event](), reflect.TypeFor[record.Runs](),
		reflect.TypeFor[record.Move](), reflect.TypeFor[protocol.MutexDoc](),
	} {
		fields = append(fields, numbers(of.Name(), of)...)
	}
	known := marks()
	named := append(slices.Collect(maps.Keys(known)), others()...)
	for _, field := range fields {
		if !slices.Contains(named, field) {
			t.Errorf("%s: is it a moment? By a clock that was a year ahead, what becomes of it?", field)
		}
	}
	for _, name := range named {
		if !slices.Contains(fields, name) {
			t.Errorf("%s: there is no such field", name)
		}
	}
	for name, is := range known {
		if is.test == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(is.file)))
		if err != nil || !bytes.Contains(text, []byte("func "+is.test+"(t *testing.T) {")) {
			t.Errorf("%s: %s has no %s: %v", name, is.file, is.test, err)
		}
	}
}

// numbers are the fields of 64 bits within a type, by name.
func numbers(name string, of reflect.Type) []string {
	switch of.Kind() {
	case reflect.Int64:
		if of != reflect.TypeFor[time.Duration]() {
			return []string{name}
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return numbers(name, of.Elem())
	case reflect.Struct:
		var all []string
		for field := range of.Fields() {
			all = append(all, numbers(name+"."+field.Name, field.Type)...)
		}
		return all
	default:
	}
	return nil
}

func TestBounds(t *testing.T) {
	const now, day = 1_000_000_000_000, 86_400_000
	for _, test := range []struct {
		ms      int64
		bounded int64
		within  bool // an hour
	}{
		{0, 0, false},
		{now - day, now - day, false},
		{now - 3_600_000, now - 3_600_000, false},
		{now - 3_599_999, now - 3_599_999, true},
		{now, now, true},
		{now + 3_599_999, now + 3_599_999, true},
		{now + 3_600_000, now + 3_600_000, false},
		{now + day, now + day, false},
		{now + day + 1, 0, false},
		{253_402_300_799_999, 0, false},
	} {
		bounded, within := record.Bounded(test.ms, now), record.Within(test.ms, now, time.Hour)
		if bounded != test.bounded || within != test.within {
			t.Errorf("%d: %d, %v; want %d, %v", test.ms, bounded, within, test.bounded, test.within)
		}
	}
}
