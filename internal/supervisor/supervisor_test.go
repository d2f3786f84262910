package supervisor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/suites"
)

const nodeLease = 4 * time.Second

// node is a supervisor whose keys are held by a real elector.
type node struct {
	*elect.Elector
	elect.Cluster // of the elector
	s             *Supervisor
	store         *memory.Store
}

// startNode runs an elector that knows the groups of the tasks, until the test ends.
func startNode(t *testing.T, s *Supervisor, tasks ...*tasks.Task) *node {
	t.Helper()
	n := &node{s: s, store: memory.New()}
	var err error
	n.Elector, err = elect.New(elect.Config{
		Store: n.store, Member: elect.Member{Instance: "a"}, LeaseDuration: nodeLease, Clock: elect.GoClock(),
		Logger:  logr.Discard(),
		OnStuck: func(keys []elect.Key) { t.Errorf("stuck: %d keys", len(keys)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	if err := n.Start(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := n.Wait(); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	n.Cluster = n.Elector.Cluster()
	if err := n.Track(ctx, "g"); err != nil {
		t.Fatal(err)
	}
	n.until(t, "open", func() bool { v := n.View(); return v.Open && v.Loaded })
	s.Declare(tasks)
	return n
}

func (n *node) claim(t *testing.T, tasks ...*tasks.Task) {
	t.Helper()
	keys := make([]elect.Key, len(tasks))
	for i, task := range tasks {
		keys[i] = task.Key()
	}
	if err := n.Claim(t.Context(), keys, elect.LockOptions{}, n.s.Runnable); err != nil {
		t.Fatal(err)
	}
}

// until waits, in the bubble's time, until ok says yes.
func (*node) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited for %s", what)
		}
	}
}

func (n *node) lock(t *testing.T, key elect.Key) record.Lock {
	t.Helper()
	res, err := n.store.Read(t.Context(), driver.KindLock, string(key))
	if err != nil || len(res.Docs) != 1 {
		t.Fatal(res, err)
	}
	lock, err := record.LockFrom(res.Docs[0])
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// A job that had just ended when its key was released is done on every replica. Its outcome is in the very write that
// releases the key.
func TestJobThatEndedJustBeforeItsStopIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := rig(t, nil, func(c *Config) { c.Lease = nodeLease })
		job := &tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}, Restart: tasks.RestartNever, Runner: finished{}}
		n := startNode(t, s, job)
		n.claim(t, job)
		n.until(t, "the run", func() bool { return len(n.HoldingKeys()) == 1 })
		synctest.Wait()
		if err := n.Unlock(t.Context(), job.Key()); err != nil {
			t.Fatal(err)
		}
		lock := n.lock(t, job.Key())
		if lock.Session != "" || !lock.Suspended || lock.Status.Outcome == nil || !lock.Status.Outcome.Succeeded ||
			lock.Status.State != record.StateDone {
			t.Errorf("the lock is %+v", lock)
		}
	})
}

// A replica that loses the lease stops the tick in progress, and goes on under a larger token once the lease is valid
// again.
func TestOutageStopsTheTickInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var tokens []int64
		var ends []error
		s, _ := rig(t, func(ctx context.Context, run tasks.Run) error {
			mu.Lock()
			tokens = append(tokens, run.Token)
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, context.Cause(ctx))
			return nil
		}, func(c *Config) { c.Lease = nodeLease })
		task := callbackTask()
		task.Every = 2 * time.Second
		n := startNode(t, s, &task)
		n.claim(t, &task)
		count := func() (starts, stops int) {
			mu.Lock()
			defer mu.Unlock()
			return len(tokens), len(ends)
		}
		n.until(t, "a tick", func() bool { starts, _ := count(); return starts == 1 })
		n.store.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })
		cut := time.Now()
		n.until(t, "its end", func() bool { _, stops := count(); return stops == 1 })
		if after := time.Since(cut); after > nodeLease*3/4+100*time.Millisecond ||
			!errors.Is(ends[0], elect.ErrLeaseLost) {
			t.Errorf("stopped %s after the outage began, with %v", after, ends[0])
		}
		n.store.Fault(nil)
		n.until(t, "another tick", func() bool { starts, _ := count(); return starts == 2 })
		if tokens[1] <= tokens[0] {
			t.Errorf("tokens %v", tokens)
		}
	})
}

func TestWaitingTasksHaveNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := 1000
		if suites.Chosen(t, suites.Models) {
			count = 10_000
		}
		s, _ := rig(t, func(context.Context, tasks.Run) error { return nil }, func(c *Config) {
			c.Logger, c.Lease = logr.Discard(), nodeLease
		})
		list := make([]*tasks.Task, count)
		for i := range list {
			list[i] = &tasks.Task{
				Identity: tasks.Identity{Group: "g", Name: fmt.Sprintf("t-%05d", i)}, Runner: named("work"),
				Timing: tasks.Timing{Schedule: "0 0 1 1 *"},
			}
		}
		n := startNode(t, s, list...)
		before, memory := runtime.NumGoroutine(), heapInUse()
		n.claim(t, list...)
		for {
			changed, waiting := n.Changed(), 0
			for _, lock := range n.View().Locks {
				if lock.Status.State == record.StateWaiting {
					waiting++
				}
			}
			if waiting == count {
				break
			}
			<-changed
		}
		synctest.Wait()
		if more := runtime.NumGoroutine() - before; more > 8 { // the elector may have a few writes under way
			t.Errorf("%d goroutines more than before", more)
		}
		took := (heapInUse() - memory) / count
		t.Logf("%d bytes for each waiting task, with what the elector and the store keep of it", took)
		if took > 8<<10 {
			t.Errorf("%d bytes for each waiting task", took)
		}
		if keys := n.HoldingKeys(); len(keys) != count || !slices.IsSorted(keys) {
			t.Errorf("%d keys are held", len(keys))
		}
	})
}

// A task that is declared with other fields starts again under a larger token where its work is another, and only
// there.
func TestDeclaredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type begun struct {
			team  string
			token int64
		}
		var mu sync.Mutex
		var runs []begun
		s, _ := rig(t, func(ctx context.Context, run tasks.Run) error {
			mu.Lock()
			runs = append(runs, begun{run.Labels["team"], run.Token})
			mu.Unlock()
			<-ctx.Done()
			return nil
		}, func(c *Config) { c.Lease = nodeLease })
		seen := func() []begun {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(runs)
		}
		job := callbackTask()
		job.Restart, job.Weight = tasks.RestartNever, 1
		n := startNode(t, s, &job)
		n.claim(t, &job)
		n.until(t, "the run", func() bool { return len(seen()) == 1 })

		edited := job
		edited.Weight, edited.Labels, edited.Backoff.Initial = 2, map[string]string{"team": "core"}, time.Hour
		if gone := s.Declare([]*tasks.Task{&edited}); len(gone) > 0 {
			t.Errorf("gone: %v", gone)
		}
		time.Sleep(nodeLease)
		if len(seen()) != 1 || n.lock(t, job.Key()).Status.Outcome != nil {
			t.Fatalf("labels, weight and backoff ended the run: %+v", seen())
		}

		other := edited
		other.Index = "1"
		s.Declare([]*tasks.Task{&other})
		n.until(t, "another run", func() bool { return len(seen()) == 2 })
		if got := seen(); got[1].team != "core" || got[1].token <= got[0].token {
			t.Errorf("runs %+v", got)
		}

		ticking := other
		ticking.Schedule, ticking.Restart = "@yearly", ""
		s.Declare([]*tasks.Task{&ticking})
		n.until(t, "it to wait", func() bool { return n.lock(t, job.Key()).Status.State == record.StateWaiting })
		if gone := s.Declare(nil); !slices.Equal(gone, []elect.Key{job.Key()}) {
			t.Errorf("gone: %v", gone)
		}
		if len(n.HoldingKeys()) != 1 {
			t.Error("a task that is no longer declared gave its key up by itself")
		}
	})
}

func TestTaskThatIsNotDeclaredIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := rig(t, nil, func(c *Config) { c.Lease = nodeLease })
		n := startNode(t, s)
		task := callbackTask()
		n.claim(t, &task)
		n.until(
			t, "the release", func() bool { v := n.View(); return v.Lock(task.Key()).Token > 0 && len(v.Held) == 0 },
		)
	})
}

func heapInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
