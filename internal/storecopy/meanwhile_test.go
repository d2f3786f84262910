package storecopy_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/storecopy"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// Requests and answers are lost on both sides all the time: what was not answered is sent again, and nothing is copied
// twice or left out.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := memory.New(), memory.New()
		all := keys(30)
		before := claim(t, from, all...)
		var calls, lost atomic.Int64
		faulty := func(c memory.Call) memory.Verdict {
			if c.Op == memory.OpApply {
				switch calls.Add(1) % 3 {
				case 0:
					lost.Add(1)
					return memory.Verdict{Fault: memory.LoseAnswer}
				case 1:
					lost.Add(1)
					return memory.Verdict{Fault: memory.LoseRequest}
				}
			}
			return memory.Verdict{}
		}
		source, target := from.Client(), to.Client()
		source.Fault(faulty)
		target.Fault(faulty)
		report := move(t, side("a", source), side("b", target))
		if report.Documents["locks"] != len(all) || lost.Load() < 8 {
			t.Errorf("copied %v, want %d locks; %d requests or answers were lost", report.Documents, len(all),
				lost.Load())
		}
		risen(t, before, claim(t, to, all...))
	})
}

// Copies of one cluster at once, to one target or to two: never is more than one side open, and one of them ends or the
// same command ends it.
func TestTwoCopiesAtOnce(t *testing.T) {
	for _, targets := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			from := memory.New()
			all := keys(10)
			before := claim(t, from, all...)
			sides := []*memory.Store{memory.New(), memory.New()}[:targets]
			names := []string{"b", "c"}
			var wg sync.WaitGroup
			errs := make([]error, 2)
			for i := range errs {
				source, target := from.Client(), sides[i%targets].Client()
				slowly := func(memory.Call) memory.Verdict {
					return memory.Verdict{Delay: time.Duration(1+i) * time.Millisecond}
				}
				source.Fault(slowly)
				target.Fault(slowly)
				wg.Go(func() {
					_, errs[i] = storecopy.Copy(t.Context(), options(side("a", source), side(names[i%targets], target)))
				})
			}
			wg.Wait()
			for i, err := range errs {
				if err != nil && !errors.Is(err, storecopy.ErrRefused) {
					t.Errorf("copy %d of %d targets: %v, want none or ErrRefused", i, targets, err)
				}
			}
			m, _, err := record.ReadMove(t.Context(), from)
			if err != nil || m.Err() == nil {
				t.Fatalf("the source is open: %+v, %v", m, err)
			}
			won := 0
			if m.Other == "c" {
				won = 1
			}
			move(t, side("a", from), side(m.Other, sides[won]))
			risen(t, before, claim(t, sides[won], all...))
			if targets == 2 {
				found, err := sides[1-won].List(t.Context(), driver.KindLock, driver.Query{})
				if err != nil || len(found.Docs) > 0 {
					t.Errorf("copied to both: %+v, %v", found.Docs, err)
				}
			}
		})
	}
}

// A replica that was cut off while its cluster was moved finds that out: what it runs has ended, and it claims nothing.
func TestReplicaComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := memory.New(), memory.New()
		cut := from.Client()
		e, _ := start(t, cut)
		token, ended := make(chan int64, 1), make(chan struct{})
		if ok, err := e.Lock(t.Context(), "g/a", func(ctx context.Context, l *elect.Lease) error {
			token <- l.Token()
			<-ctx.Done()
			close(ended)
			return nil
		}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		cut.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })
		if _, err := storecopy.Copy(t.Context(), options(side("a", from), side("b", to))); err != nil {
			t.Fatal(err)
		}
		<-ended
		cut.Fault(nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*lease)
		defer cancel()
		if ok, err := e.Lock(ctx, "g/b", func(context.Context, *elect.Lease) error { return nil }); ok && err == nil {
			t.Error("it claims at the source")
		}
		risen(t, map[elect.Key]int64{"g/a": <-token}, claim(t, to, "g/a"))
		abandon(t, e)
	})
}

// lowering is a store that keeps a smaller revision of counters than it was given.
type lowering struct{ store.Store }

func (l lowering) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	low := make([]driver.Change, len(changes))
	for i, c := range changes {
		if c.Doc.Kind == driver.KindGroup {
			c.Doc.Rev = c.IfRev + 1
		}
		low[i] = c
	}
	return l.Store.Apply(ctx, low...)
}

// The comparison finds a counter at the target that is below the locks of its group, also one that the source had lost.
func TestLowCounterIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, group := range []string{"kept", "lost"} {
			from, to := memory.New(), memory.New()
			id := driver.WriterID{Session: "hand", Seq: 1}
			put(t, from, driver.Doc{Kind: driver.KindLock, ID: group + "/a", Group: group, Rev: 1000, WriterID: id})
			if group == "kept" {
				put(t, from, driver.Doc{Kind: driver.KindGroup, ID: group, Rev: 1, WriterID: id})
			}
			_, err := storecopy.Copy(
				t.Context(), options(side("a", from), side("b", lowering{to})),
			)
			if !errors.Is(err, storecopy.ErrUnfinished) || !strings.Contains(err.Error(), "revision 1, below ") {
				t.Errorf("counter %s: %v, want that it is below", group, err)
			}
		}
	})
}
