package operate_test

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// What was asked for while the store's clock was a year ahead counts as of now, for as long as it was asked for.
func TestMarksOfAClockThatWasFarAhead(t *testing.T) {
	now := today + 365*day
	db := memory.New(memory.WithClock(func() time.Time { return time.UnixMilli(now) }))
	w, s := operate.NewWriter(db), state()
	drain, pause := instance(api.Drain, "a"), task(api.Pause, "g/3")
	pause.For = time.Hour
	trigger := task(api.Trigger, "gpu/tick")
	for _, r := range []operate.Request{drain, pause, task(api.Restart, "g/1"), trigger} {
		if err := w.Write(t.Context(), r, operate.Decide(s, r)); err != nil {
			t.Fatal(err)
		}
	}
	now = today
	done, err := w.Tend(t.Context(), nil)
	if err != nil || len(done.Ahead) != 4 {
		t.Fatalf("%+v, %v", done, err)
	}
	for id, o := range byID(t, db) {
		until := int64(0)
		if o.Kind == record.OverridePause {
			until = today + hour
		}
		if o.At != today || o.Seen > today || o.Until != until {
			t.Errorf("%s: at %d, seen %d, until %d; it is %d", id, o.At, o.Seen, o.Until, today)
		}
		if d := o.Doc(driver.WriterID{}); d.Expires > today+2*day {
			t.Errorf("%s expires at %d", id, d.Expires)
		}
	}
	if done, err := w.Tend(t.Context(), nil); err != nil || !done.Empty() {
		t.Errorf("again: %+v, %v", done, err)
	}
	now += hour
	if err := w.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o, stands := byID(t, db)["pause/task/g/3"]; stands {
		t.Errorf("the pause stands after its hour: %+v", o)
	}
}

// A pause that ended a year ahead of now, by the clock of then, does not keep the end of another from being noted.
func TestAResumeOfAClockThatWasFarAhead(t *testing.T) {
	resume := record.Override{Kind: record.OverrideResume, Scope: record.ScopeTask, Name: "g/1", At: today + 365*day}
	pause := record.Override{Kind: record.OverridePause, Scope: record.ScopeTask, Name: "g/1", At: today, Until: today + 5}
	resumes, over := operate.Ended([]record.Override{resume, pause}, today+5)
	if len(resumes) != 1 || resumes[0].Until != pause.Until || len(over) != 0 {
		t.Errorf("%+v, %+v", resumes, over)
	}
}

// A trigger has a larger number than the last one, also where that was given by a clock that was a year ahead.
func TestTriggersAfterAClockThatWasFarAhead(t *testing.T) {
	for name, expired := range map[string]bool{"it stands": false, "it has expired": true} {
		t.Run(name, func(t *testing.T) {
			now := today + 365*day
			db := memory.New(memory.WithClock(func() time.Time { return time.UnixMilli(now) }))
			w, s := operate.NewWriter(db), state()
			ask := func() int64 {
				r := task(api.Trigger, "gpu/tick")
				if err := w.Write(t.Context(), r, operate.Decide(s, r)); err != nil {
					t.Fatal(err)
				}
				return byID(t, db)["trigger/task/gpu/tick"].Token
			}
			first := ask()
			s.View.Locks["gpu/tick"].Status.LastTrigger = first
			if now = today; expired {
				for _, d := range all(t, db) {
					if _, err := db.Apply(t.Context(), driver.Change{Op: driver.Delete, IfRev: d.Rev, Doc: d}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if second := ask(); second <= first {
				t.Errorf("the second trigger has the number %d, the first %d: it is never fired",
					second, first)
			}
		})
	}
}

func all(t *testing.T, db store.Store) []driver.Doc {
	t.Helper()
	found, err := db.List(t.Context(), driver.KindOverride, driver.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return found.Docs
}

func byID(t *testing.T, db store.Store) map[string]record.Override {
	t.Helper()
	overrides := map[string]record.Override{}
	for _, d := range all(t, db) {
		o, err := record.OverrideFrom(d)
		if err != nil {
			t.Fatal(err)
		}
		overrides[o.ID()] = o
	}
	return overrides
}
