package storecopy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/storecopy"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// hooked is a store that has something happen before a mark of a move is written to it.
type hooked struct {
	store.Store
	before func()
}

func (h hooked) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	if changes[0].Doc.ID == record.MoveID {
		h.before()
	}
	return h.Store.Apply(ctx, changes...)
}

// counting is a store whose floor is a counter of its own.
type counting struct {
	store.Store
	raised *int64
}

func (c counting) RaiseFloor(_ context.Context, floor int64) error {
	*c.raised = floor
	return nil
}

// A store that does not take its floor from a clock gets where it has to begin.
func TestFloorIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to, raised := memory.New(), memory.New(), int64(0)
		before := claim(t, from, "g/a")
		report := move(t, side("a", from), side("b", counting{to, &raised}))
		if raised != report.Floor || raised < before["g/a"] {
			t.Errorf("raised to %d, want %d, and not below token %d", raised, report.Floor, before["g/a"])
		}
	})
}

// unfinished copies and wants it to be refused half-way, with a text.
func unfinished(t *testing.T, from, to storecopy.Side, says string) {
	t.Helper()
	_, err := storecopy.Copy(t.Context(), options(from, to))
	if !errors.Is(err, storecopy.ErrUnfinished) || !errors.Is(err, storecopy.ErrRefused) ||
		!strings.Contains(err.Error(), says) {
		t.Errorf("%v, want ErrUnfinished and ErrRefused that says %q", err, says)
	}
}

// A replica that begins on the target while the source is watched may run tasks there: nothing is copied over it.
func TestReplicaBeginsOnTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := memory.New(), memory.New()
		claim(t, from, "g/a")
		early := record.Session{
			ID: "early", Rev: 2, Heartbeat: 1, State: record.Live, Lease: lease, Instance: "web-1",
			WriterID: driver.WriterID{Session: "early", Seq: 1},
		}
		b := side("b", hooked{to, func() { put(t, to, early.Doc()) }})
		unfinished(t, side("a", from), b, "instance web-1 (session early) has begun on b")
		if found, err := to.List(t.Context(), driver.KindLock, driver.Query{}); err != nil || len(found.Docs) > 0 {
			t.Errorf("copied: %+v, %v", found.Docs, err)
		}
		if err := storecopy.Undo(t.Context(), options(side("a", from), side("b", to))); err != nil {
			t.Error(err)
		}
		if err := record.CheckMoved(t.Context(), from); err != nil {
			t.Errorf("the source is closed: %v", err)
		}
	})
}

// A source that has forgotten the mark may have replicas: the target is not opened.
func TestForgottenMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := memory.New(), memory.New()
		claim(t, from, "g/a")
		forget := func() {
			m, _, err := record.ReadMove(t.Context(), from)
			if err != nil || m.State != record.MoveLeaving {
				t.Fatal(m, err)
			}
			outs, err := from.Apply(t.Context(), driver.Change{
				Op: driver.Delete, IfRev: m.Rev,
				Doc: driver.Doc{
					Kind: driver.KindValue, ID: record.MoveID,
					WriterID: driver.WriterID{Session: "hand", Seq: 1},
				},
			})
			if err != nil || outs[0].Status != driver.Applied {
				t.Fatal(outs, err)
			}
		}
		unfinished(t, side("a", from), side("b", hooked{to, forget}), "the mark of this copy is gone from a")
		if err := record.CheckMoved(t.Context(), to); !errors.Is(err, record.ErrMoved) {
			t.Errorf("the target is open: %v", err)
		}
	})
}

// A copy that was cut off before it reached its target is given up, whatever process has the target by now.
func TestUndoLeavesOthersAlone(t *testing.T) {
	for name, occupy := range map[string]func(t *testing.T, to store.Store){
		"by a cluster": func(t *testing.T, to store.Store) {
			t.Helper()
			claim(t, to, "g/a")
		},
		"by another move": func(t *testing.T, to store.Store) {
			t.Helper()
			other := memory.New()
			claim(t, other, "g/a")
			move(t, side("other", other), side("b", to))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, to := memory.New(), memory.New()
				before := claim(t, from, "g/a")
				a, b := side("a", from), side("b", to)
				_, err := storecopy.Copy(t.Context(), options(a, side("b", &killed{to, 0})))
				if !errors.Is(err, errKilled) || !errors.Is(err, storecopy.ErrUnfinished) {
					t.Fatalf("%v, want the test's own error, unfinished", err)
				}
				occupy(t, to)
				unfinished(t, a, b, "b is not empty")
				if err := storecopy.Undo(t.Context(), options(a, b)); err != nil {
					t.Fatal(err)
				}
				if err := record.CheckMoved(t.Context(), to); err != nil {
					t.Errorf("the other cluster is closed: %v", err)
				}
				risen(t, before, claim(t, from, "g/a"))
			})
		})
	}
}
