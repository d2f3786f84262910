package storetest

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Replaced tests a store whose name leads to another one at run time: another database has taken its place, or it was
// dropped and set up anew. Every call is refused by an error that names both, and none is applied.
type Replaced struct {
	// Open opens a client of what the name leads to. It ends with the test.
	Open func(t *testing.T) driver.Store
	// Swap has the name lead to another store of the same cluster, and ends all connections. Called again it leads back.
	Swap func()
	// Drop, in the place of Swap, drops all that the store has made. Connections stay open.
	Drop func()
	// MayApply says that of each kind the first calls that are refused may have been applied, as those are that meet the
	// other store over a connection which is made in their time.
	MayApply bool
}

// Run runs the test.
func (r Replaced) Run(t *testing.T) {
	t.Helper()
	f := Faults{Call: time.Second, WatchEnds: true}
	s := r.Open(t)
	notes := f.watch(t, s)
	f.Until(t, s, Heartbeat("mine", 0))
	f.Until(t, s, increment("g"))
	if r.Drop != nil {
		r.Drop()
		untilFailed(t, s, Heartbeat("dropped", 0), f.call())
		untilFailed(t, s, increment("dropped"), f.call())
		r.Open(t) // sets it up anew
		r.wantOther(t, r.Open(t), s, f.call())
		return
	}
	r.Swap()
	r.wantOther(t, r.Open(t), s, f.call())
	r.Swap()
	for _, c := range []driver.Change{Heartbeat("mine", 1), increment("g")} {
		untilApplied(t, s, c, f.call())
	}
	f.read(t, s, "mine")
	f.wantWatched(t, s, notes, "watched", Fault{Name: "another store in its place"})
	f.read(t, r.Open(t), "mine")
}

// untilFailed repeats a change until it is not applied any more.
func untilFailed(t *testing.T, s driver.Store, c driver.Change, call time.Duration) {
	t.Helper()
	for end := time.Now().Add(patience); ; _ = clock.Sleep(t.Context(), 10*time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), call)
		outs, err := s.Apply(ctx, c)
		cancel()
		switch {
		case err != nil:
			t.Fatal(err)
		case outs[0].Status == driver.Unknown:
			return
		case time.Now().After(end):
			t.Fatalf("%s %s is still applied after %v: %s", c.Doc.Kind, c.Doc.ID, patience, describe(outs[0]))
		}
	}
}

// wantOther wants every call of a client to be refused that was opened on another store than the one that is there now,
// of which there is a new client.
func (r Replaced) wantOther(t *testing.T, there, s driver.Store, call time.Duration) {
	t.Helper()
	for _, id := range []string{"late", "later"} {
		for name, try := range calls(t, s, id) {
			wantRefusals(t, name, try, call)
		}
		for _, kind := range []driver.Kind{driver.KindSession, driver.KindGroup} {
			reply, err := there.Read(t.Context(), kind, id)
			if err != nil || len(reply.Docs) > 0 && (!r.MayApply || id != "late") {
				t.Errorf("applied to the other store: %+v, %v", reply.Docs, err)
			}
		}
	}
	untilApplied(t, there, increment("there"), call)
}

// calls are those of each lane, by what they are. The error is why it is not known whether they are applied.
func calls(t *testing.T, s driver.Store, id string) map[string]func(context.Context) error {
	t.Helper()
	write := func(c driver.Change) func(context.Context) error {
		return func(ctx context.Context) error {
			outs, err := s.Apply(ctx, c)
			if err == nil && outs[0].Status != driver.Unknown {
				t.Fatalf("%s %s on another store: %s", c.Doc.Kind, c.Doc.ID, describe(outs[0]))
			}
			if err == nil {
				err = outs[0].Err
			}
			return err
		}
	}
	return map[string]func(context.Context) error{
		"a heartbeat": write(Heartbeat(id, 0)),
		"a write":     write(increment(id)),
		"a read": func(ctx context.Context) error {
			_, err := s.Read(ctx, driver.KindSession, "mine")
			return err
		},
		"a list": func(ctx context.Context) error {
			_, err := s.List(ctx, driver.KindGroup, driver.Query{})
			return err
		},
	}
}

// wantRefusals repeats a call until it has been refused a few times since another store is there.
func wantRefusals(t *testing.T, name string, try func(context.Context) error, call time.Duration) {
	t.Helper()
	const enough = 3
	end := time.Now().Add(patience)
	for refused := 0; refused < enough; _ = clock.Sleep(t.Context(), 10*time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), call)
		err := try(ctx)
		cancel()
		switch {
		case err == nil:
			t.Fatalf("%s is answered by another store", name)
		case errors.Is(err, driver.ErrOther) && driver.Lasting(err):
			refused++
			wantNamed(t, err)
		case time.Now().After(end):
			t.Fatalf("%s: %v, want %v", name, err, driver.ErrOther)
		}
	}
}

var identities = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// wantNamed wants an error to name two stores.
func wantNamed(t *testing.T, err error) {
	t.Helper()
	named := identities.FindAllString(err.Error(), -1)
	slices.Sort(named)
	if named = slices.Compact(named); len(named) != 2 {
		t.Errorf("%v names %v, want two identities", err, named)
	}
}
