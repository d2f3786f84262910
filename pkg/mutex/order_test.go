package mutex_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// looking is the store of a process that calls once. It notes at which revision it has shown the lock "m" first.
type looking struct {
	store.Store
	seen atomic.Int64
}

func (l *looking) note(d driver.Doc) {
	if d.ID == record.MutexID("m") {
		l.seen.CompareAndSwap(0, d.Rev)
	}
}

func (l *looking) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	reply, err := l.Store.Read(ctx, kind, ids...)
	for _, d := range reply.Docs {
		l.note(d)
	}
	return reply, err
}

func (l *looking) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	outs, err := l.Store.Apply(ctx, changes...)
	for i, out := range outs {
		switch {
		case out.Status == driver.Applied:
			l.note(changes[i].Doc)
		case out.Doc != nil:
			l.note(*out.Doc)
		}
	}
	return outs, err
}

// waited is what is known of one call.
type waited struct {
	n           int   // so many were made before
	asked, seen int64 // the document's revision when it was made, and the one that was shown first after that
}

// callers are calls of many processes for the lock "m".
type callers struct {
	t  *testing.T
	db store.Store

	mu     sync.Mutex
	made   int
	calls  map[string]waited // by their claims
	served []string
}

func (c *callers) document() protocol.MutexDoc {
	c.t.Helper()
	is, err := record.MutexFrom(only(c.t, c.db, "m"))
	if err != nil {
		c.t.Error(err)
	}
	return is
}

// call waits its turn, and notes it.
func (c *callers) call(l *mutex.Locks, db *looking) {
	c.mu.Lock()
	n, asked := c.made, c.document().Rev
	c.made++
	c.mu.Unlock()
	h, err := l.Mutex("m").Lock(c.t.Context())
	if err != nil {
		c.t.Error(err)
		return
	}
	for _, holder := range c.document().Holders {
		if holder.Token == h.Token() {
			c.mu.Lock()
			c.calls[holder.Claim] = waited{n, asked, db.seen.Load()}
			c.served = append(c.served, holder.Claim)
			c.mu.Unlock()
		}
	}
	unlock(c.t, h)
}

// overtaken is how many calls were served after a later one.
func (c *callers) overtaken() int {
	n := 0
	for i, claim := range c.served {
		for _, before := range c.served[:i] {
			if c.calls[before].n > c.calls[claim].n {
				n++
				break
			}
		}
	}
	return n
}

// Fifty processes ask within 200 ms, and most of their writes are refused. A call that is made when the document is
// newer than another had seen gets no place before that.
func TestLaterCallsStayBehind(t *testing.T) {
	const size = 25
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		c := &callers{t: t, db: db, calls: map[string]waited{}}
		first := must(t)(process(t, db.Client(), "first").Mutex("m").Lock(t.Context()))
		random := rand.New(rand.NewPCG(1, 2))
		ms := func(most int) time.Duration { return time.Duration(1+random.IntN(most)) * time.Millisecond }
		var calls sync.WaitGroup
		for i := range size {
			client, to, from, after := db.Client(), ms(10), ms(10), ms(200)
			looks := &looking{Store: client}
			l := process(t, looks, fmt.Sprint(i))
			unlock(t, must(t)(l.Mutex("other").Lock(t.Context()))) // its session is there
			client.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Delay: to, AnswerDelay: from} })
			calls.Go(func() {
				time.Sleep(after)
				c.call(l, looks)
			})
		}
		var queue []protocol.MutexTicket
		for len(queue) < size {
			time.Sleep(time.Second)
			queue = c.document().Queue
		}
		unlock(t, first)
		calls.Wait()
		last := int64(0)
		for i, ticket := range queue {
			call := c.calls[ticket.Claim]
			if c.served[i] != ticket.Claim {
				t.Errorf("call %d of %d is not the one in the queue", i, size)
			}
			if last > call.seen {
				t.Errorf("call %d of %d saw revision %d, and is behind one made at %d", i, size, call.seen, last)
			}
			last = max(last, call.asked)
		}
		t.Logf("%d of %d calls were served after a later one", c.overtaken(), size)
	})
}
