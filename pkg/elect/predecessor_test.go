package elect_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// container is where a node lives that can die whole: its runs end, and nothing of it reaches the store any more.
type container struct {
	*node
	rec  *recorder
	dead chan struct{}
}

func (c *container) run(ctx context.Context, l *elect.Lease) error {
	c.rec.begin(c.View().Instance, l)
	select {
	case <-ctx.Done():
	case <-c.dead:
	}
	c.rec.end(l.Key())
	<-ctx.Done()
	return context.Cause(ctx)
}

func (c *container) die() {
	c.cut()
	close(c.dead)
	synctest.Wait()
}

// startContainer runs a node called a that tracks group g; whatever is in left was left by the ones before it.
func startContainer(
	t *testing.T, db *memory.Store, rec *recorder, ended *ledger, left []electing.Session,
	change ...func(*elect.Config),
) *container {
	t.Helper()
	c := &container{rec: rec, dead: make(chan struct{})}
	c.node = startNode(
		t, db, "a", append(change, func(cfg *elect.Config) { cfg.Inside.Predecessors, cfg.Inside.Guard = left, ended })...,
	)
	c.track(t)
	return c
}

// ledger is a guard that notes which sessions were informed to be over.
type ledger struct {
	mu   sync.Mutex
	over []string
}

func (g *ledger) SessionOpening(string)                                       {}
func (g *ledger) Renewed(string, elect.Instant, time.Duration, time.Duration) {}

func (g *ledger) SessionOver(session string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = append(g.over, session)
}

func (g *ledger) has(session string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.over, session)
}

func sessionOf(v *cluster.View, id string) (cluster.Session, bool) {
	i := slices.IndexFunc(v.Sessions, func(s cluster.Session) bool { return s.ID == id })
	if i < 0 {
		return cluster.Session{}, false
	}
	return v.Sessions[i], true
}

// A container that is started again takes its keys back at once, and no replica sees its predecessor dead without
// seeing it.
func TestPredecessorEndsOnceItsSuccessorIsSeen(t *testing.T) {
	t.Run("watching", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testPredecessor(t, nil) }) })
	t.Run("polling", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			testPredecessor(t, func(cfg *elect.Config) { cfg.Store = blindStore{cfg.Store} })
		})
	})
}

// blindStore cannot watch.
type blindStore struct{ store.Store }

func (blindStore) Watch(context.Context, driver.Interest) (<-chan driver.Notification, error) {
	return nil, driver.ErrCannotWatch
}

func testPredecessor(t *testing.T, change func(*elect.Config)) {
	t.Helper()
	db, rec, ended := memory.New(), newRecorder(t), &ledger{}
	if change == nil {
		change = func(*elect.Config) {}
	}
	other := startNode(t, db, "b", change)
	other.track(t)
	first := startContainer(t, db, rec, ended, nil, change)
	first.claim(t, "g/k", first.run)
	first.claim(t, "g/far", first.run)
	eventually(t, time.Second, "both run", func() bool { return rec.owner("g/k") == "a" && rec.owner("g/far") == "a" })
	old := first.View().Session
	first.die()

	died := time.Now()
	second := startContainer(t, db, rec, ended,
		[]electing.Session{{ID: old, Remote: map[elect.Key]time.Duration{"g/far": lease}}}, change)
	eventually(t, lease/2, "the other sees the first one dead", func() bool {
		v := other.View()
		s, _ := sessionOf(v, old)
		if s.State != record.Dead {
			return false
		}
		if next, ok := sessionOf(v, second.View().Session); !ok || !next.Known {
			t.Errorf("the first one is dead before its successor is known: %+v", v.Sessions)
		}
		return true
	})
	eventually(t, time.Second, "it is reported to be over", func() bool { return ended.has(old) })
	second.claim(t, "g/k", second.run)
	eventually(t, time.Second, "its key runs again", func() bool { return rec.owner("g/k") == "a" })
	if took := time.Since(died); took > lease/2 {
		t.Errorf("its key runs again after %v", took)
	}
	eventually(t, time.Second, "the others know why", func() bool {
		l := other.View().Lock("g/k")
		return l.Reason == record.ReasonRestarted && strings.Contains(l.Message, "its container ended")
	})

	// A HTTP endpoint may still work on the other key.
	for rec.owner("g/far") == "" {
		second.claim(t, "g/far", second.run)
		time.Sleep(10 * time.Millisecond)
		if time.Since(died) > lease+time.Second {
			t.Fatal("a granted key was never taken again")
		}
	}
	if took := time.Since(died); took < lease {
		t.Errorf("a granted key was taken after %v, before the HTTP endpoint's time was over", took)
	}
	for _, n := range []*node{first.node, second.node, other} {
		n.heal()
		n.stop()
	}
}

// Whatever became of a predecessor's session by now: nothing is left to do for it, and nothing goes wrong.
func TestPredecessorThatIsOverAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, ended := memory.New(), &ledger{}
		gone := startNode(t, db, "a")
		gone.track(t)
		dead := gone.View().Session
		gone.stop() // in order: its session says dead
		never := "00000000-0000-4000-8000-000000000000"
		n := startContainer(t, db, newRecorder(t), ended, []electing.Session{{ID: dead}, {ID: never}})
		eventually(t, lease, "both are reported to be over", func() bool { return ended.has(dead) && ended.has(never) })
		n.stop()
	})
}

// While the store is unreachable everything else goes on, and the mark is made when it is back.
func TestPredecessorIsMarkedOnceTheStoreTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec, ended := memory.New(), newRecorder(t), &ledger{}
		first := startContainer(t, db, rec, ended, nil)
		first.claim(t, "g/k", first.run)
		eventually(t, time.Second, "it runs", func() bool { return rec.owner("g/k") == "a" })
		old := first.View().Session
		first.die()

		second := startContainer(t, db, rec, ended, []electing.Session{{ID: old}})
		marks := 0
		second.store.Fault(func(c memory.Call) memory.Verdict {
			for _, ch := range c.Changes {
				if ch.Doc.ID == old && marks < 3 {
					marks++
					return memory.Verdict{Fault: []memory.Fault{memory.LoseRequest, memory.LoseAnswer}[marks%2]}
				}
			}
			return memory.Verdict{}
		})
		eventually(t, lease, "the mark is made", func() bool { return ended.has(old) })
		if marks == 0 {
			t.Error("no mark was seen")
		}
		second.claim(t, "g/k", second.run)
		eventually(t, time.Second, "its key runs again", func() bool { return rec.owner("g/k") == "a" })
		second.stop()
		first.heal()
		first.stop()
	})
}

// What does not fit in a document cannot be marked: it must not keep its keys for ever.
func TestPredecessorWithTooManyGrantsIsLeftToItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec, ended := memory.New(), newRecorder(t), &ledger{}
		first := startContainer(t, db, rec, ended, nil)
		first.claim(t, "g/k", first.run)
		eventually(t, time.Second, "it runs", func() bool { return rec.owner("g/k") == "a" })
		left := electing.Session{ID: first.View().Session, Remote: map[elect.Key]time.Duration{}}
		for i := range 4000 {
			left.Remote[elect.Key(fmt.Sprintf("g/far-%06d", i))] = lease
		}
		first.die()
		died := time.Now()
		second := startContainer(t, db, rec, ended, []electing.Session{left})
		for rec.owner("g/k") == "" {
			second.claim(t, "g/k", second.run)
			time.Sleep(10 * time.Millisecond)
			if time.Since(died) > lease+time.Second {
				t.Fatal("its key was never taken again")
			}
		}
		if took := time.Since(died); took < lease/2 {
			t.Errorf("taken after %v", took)
		}
		second.stop()
		first.heal()
		first.stop()
	})
}
