package operate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	db := memory.New()
	w := operate.NewWriter(db)
	s := state()
	write := func(r operate.Request) {
		t.Helper()
		d := operate.Decide(s, r)
		if len(d.Refused) > 0 {
			t.Fatalf("%+v", d.Refused)
		}
		if err := w.Write(t.Context(), r, d); err != nil {
			t.Fatal(err)
		}
		res, err := db.List(t.Context(), driver.KindOverride, driver.Query{})
		if err != nil {
			t.Fatal(err)
		}
		s.View.Overrides = nil
		for _, doc := range res.Docs {
			o, err := record.OverrideFrom(doc)
			if err != nil {
				t.Error(err)
			}
			s.View.Overrides = append(s.View.Overrides, o)
		}
	}
	asked := instance(api.Drain, "a")
	asked.Reason = "kernel"
	write(asked)
	o := s.View.Overrides[0]
	if o.Kind != record.OverrideDrain || o.Name != "a" || o.By != "bob" || o.Reason != "kernel" || o.At == 0 ||
		o.Seen == 0 {
		t.Errorf("%+v", o)
	}
	write(task(api.Pause, "g/1", "g/2"))
	write(to(task(api.Pin, "g/1"), "b", true))
	write(to(task(api.Pin, "g/1"), "a", false))
	write(task(api.Resume, "g/1"))
	write(instance(api.Undrain, "a"))
	write(task(api.Trigger, "gpu/tick"))
	first := find(t, s, "trigger/task/gpu/tick").Token
	write(task(api.Trigger, "gpu/tick"))
	if second := find(t, s, "trigger/task/gpu/tick").Token; second <= first {
		t.Errorf("the second trigger has the number %d, the first %d", second, first)
	}
	var left []string
	for _, o := range s.View.Overrides {
		left = append(left, o.ID())
	}
	if want := []string{
		"pause/task/g/2", "pin/task/g/1", "resume/task/g/1", "trigger/task/gpu/tick",
	}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
	if pin := find(t, s, "pin/task/g/1"); pin.To != "a" || pin.Strict {
		t.Errorf("%+v: want the last one", pin)
	}

	events, err := db.List(t.Context(), driver.KindEvent, driver.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var noted []string
	for _, doc := range events.Docs {
		e, err := record.EventFrom(doc)
		if err != nil {
			t.Fatal(err)
		}
		noted = append(noted, fmt.Sprint(e.Type, " ", e.Reason, " by ", e.By))
	}
	if len(noted) != 9 || !slices.Contains(noted, "Change Drain by bob") ||
		!slices.Contains(noted, "Change Undrain by bob") {
		t.Errorf("%d events: %q", len(noted), noted)
	}
	counter, err := db.Read(t.Context(), driver.KindGroup, record.CounterOverrides)
	if err != nil || len(counter.Docs) != 1 || counter.Docs[0].Count < 8 {
		t.Errorf("the counter is %+v, %v", counter.Docs, err)
	}
}

func find(t *testing.T, s operate.State, id string) record.Override {
	t.Helper()
	at := slices.IndexFunc(s.View.Overrides, func(o record.Override) bool { return o.ID() == id })
	if at < 0 {
		t.Fatalf("no override %s", id)
	}
	return s.View.Overrides[at]
}

// events are those of the store, in any order, as type, reason and task.
func events(t *testing.T, db store.Store) []string {
	t.Helper()
	res, err := db.List(t.Context(), driver.KindEvent, driver.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, doc := range res.Docs {
		e, err := record.EventFrom(doc)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(e.Type, " ", e.Reason, " ", e.Key))
	}
	slices.Sort(all)
	return all
}

// What another request has taken back already is no change, and has no event. A change whose answer was lost has one.
func TestOnlyChangesHaveEvents(t *testing.T) {
	db := memory.New()
	r := task(api.Unpin, "g/1")
	d := operate.Decision{Delete: []record.Override{{Kind: record.OverridePin, Scope: record.ScopeTask, Name: "g/1"}}}
	if err := operate.NewWriter(db).Write(t.Context(), r, d); err != nil {
		t.Fatal(err)
	}
	if got := events(t, db); len(got) > 0 {
		t.Errorf("events %q, of a pin that there was not", got)
	}
	pin := to(task(api.Pin, "g/1"), "b", true)
	if err := operate.NewWriter(db).Write(t.Context(), pin, operate.Decide(state(), pin)); err != nil {
		t.Fatal(err)
	}
	lost := false
	db.Fault(func(c memory.Call) memory.Verdict {
		if c.Op == memory.OpApply && !lost {
			lost = true
			return memory.Verdict{Fault: memory.LoseAnswer}
		}
		return memory.Verdict{}
	})
	if err := operate.NewWriter(db).Write(t.Context(), r, d); err != nil {
		t.Fatal(err)
	}
	if got, want := events(t, db), []string{"Change Pin g/1", "Change Unpin g/1"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// leaving is a store whose user leaves with its first change.
type leaving struct {
	store.Store
	leave func()
}

func (l leaving) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer l.leave()
	return l.Store.Apply(ctx, changes...)
}

// A caller that leaves in between leaves no change without an event, and no pause that is half taken back.
func TestChangesAreFinishedForCallersThatLeave(t *testing.T) {
	db := memory.New()
	pause, resume := task(api.Pause, "g/1"), task(api.Resume, "g/1")
	paused := standing(record.OverridePause, record.ScopeTask, "g/1")
	for _, step := range []struct {
		request  operate.Request
		standing []record.Override
	}{{pause, nil}, {resume, []record.Override{paused}}} {
		ctx, leave := context.WithCancel(t.Context())
		w := operate.NewWriter(leaving{db, leave})
		if err := w.Write(ctx, step.request, operate.Decide(state(step.standing...), step.request)); err != nil {
			t.Errorf("%s: %v", step.request.Verb, err)
		}
		if ctx.Err() == nil {
			t.Fatal("the caller has not left")
		}
		if err := w.Write(ctx, step.request, operate.Decide(state(), step.request)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s by who had left before: %v", step.request.Verb, err)
		}
	}
	if got, want := events(t, db), []string{"Change Pause g/1", "Change Resume g/1"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	res, err := db.List(t.Context(), driver.KindOverride, driver.Query{States: []string{string(record.OverridePause)}})
	if err != nil || len(res.Docs) > 0 {
		t.Errorf("left is %v, %v", res.Docs, err)
	}
}

// An answer that was lost does not make a change be lost, or be written twice with other words.
func TestLostAnswersAreAskedFor(t *testing.T) {
	db := memory.New()
	lost := 0
	db.Fault(func(c memory.Call) memory.Verdict {
		if c.Op == memory.OpApply && lost < 3 {
			lost++
			return memory.Verdict{Fault: memory.LoseAnswer}
		}
		return memory.Verdict{}
	})
	w := operate.NewWriter(db)
	r := task(api.Pause, "g/1", "g/2")
	if err := w.Write(t.Context(), r, operate.Decide(state(), r)); err != nil {
		t.Fatal(err)
	}
	res, err := db.List(t.Context(), driver.KindOverride, driver.Query{})
	if err != nil || len(res.Docs) != 2 {
		t.Errorf("%+v, %v", res.Docs, err)
	}
}

// A bulk request is as many documents as tasks, in batches.
func TestManyTasksAtOnce(t *testing.T) {
	s := state()
	var names []string
	for i := range 1000 {
		key := elect.NewKey("g", fmt.Sprintf("many-%04d", i))
		s.Declared.Groups[0].Keys = append(s.Declared.Groups[0].Keys, reconcile.DeclaredKey{Key: key})
		names = append(names, string(key))
	}
	db := memory.New()
	r := task(api.Pause, names...)
	if err := operate.NewWriter(db).Write(t.Context(), r, operate.Decide(s, r)); err != nil {
		t.Fatal(err)
	}
	if res, err := db.List(t.Context(), driver.KindOverride, driver.Query{CountOnly: true}); err != nil ||
		res.Total != 1000 {
		t.Errorf("%d written, %v", res.Total, err)
	}
}
