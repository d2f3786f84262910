package zookeeper

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"
)

// barrier makes reads linearizable. ZooKeeper's own sync does not: a leader answers it without asking a majority, so
// one that was deposed and does not know it yet answers as well (ZOOKEEPER-2136, ZOOKEEPER-3600). A write cannot be
// acknowledged by such a leader. A server answers a session in order: what it reads afterwards includes that write, and
// so everything acknowledged before it. Reads that begin at about the same time share one write.
type barrier struct {
	*access
	running context.Context // until close
	end     context.CancelFunc
	writes  sync.WaitGroup

	mu      sync.Mutex
	writing bool
	waiting *flight // joined by who comes; nil: no one has come since the last one took off
}

// close ends writes under way. No one waits for one any more.
func (b *barrier) close() {
	b.end()
	b.writes.Wait()
}

// flight is one write, and who waits for it.
type flight struct {
	done   chan struct{}
	course uint64 // in which it was answered
	err    error
}

// pass waits for a write that began after the call. What is then read in the same course is linearizable.
func (b *barrier) pass(ctx context.Context) (course uint64, err error) {
	b.mu.Lock()
	f := b.waiting
	if f == nil {
		f = &flight{done: make(chan struct{})}
		b.waiting = f
	}
	if !b.writing {
		b.writing = true
		b.writes.Go(b.run) //nolint:contextcheck // others may wait for it as well
	}
	b.mu.Unlock()
	select {
	case <-f.done:
		return f.course, f.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// run writes as long as somebody waits.
func (b *barrier) run() {
	for {
		b.mu.Lock()
		f := b.waiting
		b.waiting, b.writing = nil, f != nil
		b.mu.Unlock()
		if f == nil {
			return
		}
		f.course, f.err = b.write()
		close(f.done)
	}
}

func (b *barrier) write() (course uint64, err error) {
	ctx, release := context.WithTimeout(b.running, b.timeout)
	defer release()
	course = b.client.course.Load()
	err = b.set(ctx, b.barrierPath(), nil)
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		// Who may only read decides nothing. A sync is as near as ZooKeeper lets them come.
		_, err = do(ctx, b.client, func(conn *zk.Conn) (string, error) { return conn.Sync(b.barrierPath()) })
	case errors.Is(err, zk.ErrNoNode): // somebody deleted it; to make it is a write as well
		err = b.create(ctx, b.barrierPath(), nil)
	}
	return course, err
}
