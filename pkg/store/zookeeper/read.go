package zookeeper

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// dated adds what every reply says.
func (a *access) dated(p dbstore.Page) dbstore.Page {
	p.Now, p.Floor = a.clock.now(time.Now()), a.clock.floor()
	return p
}

// reader reads documents by their IDs.
type reader struct {
	*access
	barrier *barrier
}

// read is linearizable. The order of answers is kept within a generation only, so it begins again when that has
// changed.
func (r *reader) read(ctx context.Context, kind driver.Kind, ids []string) (dbstore.Page, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" })
	for {
		generation, err := r.barrier.pass(ctx)
		if err != nil {
			return dbstore.Page{}, err
		}
		docs, malformed := make([]*driver.Doc, len(ids)), make([]error, len(ids))
		errs := make([]error, len(ids), len(ids)+1)
		each(len(ids), func(i int) { docs[i], malformed[i], errs[i] = r.look(ctx, kind, ids[i]) })
		err, same := firstOf(append(errs, r.learnBase(ctx))), r.client.generation.Load() == generation
		switch {
		case ctx.Err() != nil:
			return dbstore.Page{}, errors.Join(context.Cause(ctx), err)
		case !same:
			continue
		case err != nil:
			return dbstore.Page{}, err
		}
		var all dbstore.Page
		for i := range ids {
			if docs[i] != nil {
				all.Docs = append(all.Docs, *docs[i])
			}
			if malformed[i] != nil {
				all.Unreadable = append(all.Unreadable, driver.Unreadable{Kind: kind, ID: ids[i], Err: malformed[i]})
			}
		}
		return all, nil
	}
}

// look reads one document from the server at hand, or why what is there cannot be read. Both are nil where there is
// none.
func (a *access) look(ctx context.Context, kind driver.Kind, id string) (d *driver.Doc, malformed, err error) {
	f, err := a.get(ctx, a.place(kind, id).document)
	if err != nil {
		return nil, nil, err
	}
	d, malformed = decode(kind, id, f)
	return d, malformed, nil
}

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
	done       chan struct{}
	generation uint64 // in which it was answered
	err        error
}

// pass waits for a write that began after the call. What is then read in the same generation is linearizable.
func (b *barrier) pass(ctx context.Context) (generation uint64, err error) {
	b.mu.Lock()
	f := b.waiting
	if f == nil {
		f = &flight{done: make(chan struct{})}
		b.waiting = f
	}
	if !b.writing {
		b.writing = true
		b.writes.Go(b.run)
	}
	b.mu.Unlock()
	select {
	case <-f.done:
		return f.generation, f.err
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
		f.generation, f.err = b.write()
		close(f.done)
	}
}

func (b *barrier) write() (generation uint64, err error) {
	ctx, release := context.WithTimeout(b.running, b.timeout)
	defer release()
	generation = b.client.generation.Load()
	err = b.set(ctx, b.barrierPath(), nil)
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		// Who may only read decides nothing. A sync is as near as ZooKeeper lets them come.
		_, err = do(ctx, b.client, func(conn *zk.Conn) (string, error) { return conn.Sync(b.barrierPath()) })
	case errors.Is(err, zk.ErrNoNode): // somebody deleted it; to make it is a write as well
		err = b.create(ctx, b.barrierPath(), nil)
	}
	return generation, err
}
