package storecopy_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/storecopy"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// A store that is away for longer than a lease keeps replicas from their heartbeats as well. Their cluster is refused
// all the same, once they have gone on.
func TestOutageWhileWatching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := memory.New(), memory.New()
		replica, mover := from.Client(), from.Client()
		_, stop := start(t, replica)
		time.Sleep(lease)
		var away, looks atomic.Int64 // looks at sessions since the store is back
		gone := func(c memory.Call) memory.Verdict {
			switch {
			case away.Load() > 0:
				return memory.Verdict{Fault: memory.LoseRequest}
			case c.Op == memory.OpList && c.Kind == driver.KindSession:
				looks.Add(1)
			}
			return memory.Verdict{}
		}
		done := make(chan error, 1)
		replica.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.LoseRequest} })
		mover.Fault(gone)
		go func() {
			_, err := storecopy.Copy(t.Context(), options(side("a", mover), side("b", to)))
			done <- err
		}()
		time.Sleep(lease / 10)
		away.Store(1)
		time.Sleep(2 * lease)
		looks.Store(0)
		away.Store(0)
		for looks.Load() < 2 { // the replica is the later one to reach the store
			time.Sleep(time.Millisecond)
		}
		replica.Fault(nil)
		if err := <-done; !errors.Is(err, storecopy.ErrRefused) || !strings.Contains(err.Error(), "the cluster runs") {
			t.Errorf("%v, want ErrRefused since the cluster runs", err)
		}
		if err := record.CheckMoved(t.Context(), from); err != nil {
			t.Errorf("the source is marked: %v", err)
		}
		stop()
	})
}

// A session whose document was deleted may run what its locks say, until its lease is over. The copy waits for that,
// and no less when the document vanishes while it waits.
func TestDeletedSessionIsWaitedFor(t *testing.T) {
	for _, after := range []time.Duration{-lease / 10, lease / 3} {
		synctest.Test(t, func(t *testing.T) {
			from, to := memory.New(), memory.New()
			cut := from.Client()
			e, _ := start(t, cut)
			ended := make(chan struct{})
			if ok, err := e.Lock(t.Context(), "g/a", func(ctx context.Context, _ *elect.Lease) error {
				<-ctx.Done()
				close(ended)
				return nil
			}); !ok || err != nil {
				t.Fatal(ok, err)
			}
			cut.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })
			time.AfterFunc(max(after, 0), func() {
				found, err := from.List(t.Context(), driver.KindSession, driver.Query{})
				if err != nil || len(found.Docs) != 1 {
					t.Error(found.Docs, err)
					return
				}
				d := found.Docs[0]
				d.WriterID = driver.WriterID{Session: "hand", Seq: 1}
				outs, err := from.Apply(t.Context(), driver.Change{Op: driver.Delete, IfRev: d.Rev, Doc: d})
				if err != nil || outs[0].Status != driver.Applied {
					t.Error(outs, err)
				}
			})
			time.Sleep(max(-after, 0))
			begin := time.Now()
			if _, err := storecopy.Copy(t.Context(), options(side("a", from), side("b", to))); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			default:
				t.Errorf("deleted %v after it: the copy is complete, and the run is still on", after)
			}
			if waited := time.Since(begin); waited < lease+max(after, 0) {
				t.Errorf("deleted %v after it: waited %v, want a lease of %v from then on", after, waited, lease)
			}
			abandon(t, e)
		})
	}
}

// A session whose body was damaged is waited for as long as any lease of the cluster, also one that only the dead or
// members name.
func TestLongestLeaseOfAll(t *testing.T) {
	long := 50 * time.Second
	id := driver.WriterID{Session: "w", Seq: 1}
	for name, says := range map[string]driver.Doc{
		"the dead": record.Session{
			ID: "dead", Rev: 3, State: record.Dead, Lease: long, WriterID: id,
		}.Doc(),
		"a member": record.Member{Session: "m", Rev: 1, LeaseMS: long.Milliseconds()}.Doc(id),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, to := memory.New(), memory.New()
				put(t, from, says)
				put(t, from, driver.Doc{
					Kind: driver.KindSession, ID: "s", Rev: 2, State: string(record.Live), Body: []byte("{"),
					WriterID: id,
				})
				begin := time.Now()
				_, err := storecopy.Copy(t.Context(), options(side("a", from), side("b", to)))
				if waited := time.Since(begin); err != nil || waited < long {
					t.Errorf("waited %v, %v; want %v at least", waited, err, long)
				}
			})
		})
	}
}
