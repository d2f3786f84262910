package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// writer changes documents.
type writer struct {
	*reader
	setup *setup
	live  *liveSessions
	turns [manyBuckets]chan struct{} // each holds a value while an increment of its groups is under way
}

// CAS implements [dbstore.Backend]: each change is one multi, and all are on their way at once.
func (w *writer) CAS(ctx context.Context, changes []driver.Change, attempt int) ([]dbstore.Result, error) {
	results := make([]dbstore.Result, len(changes))
	each(len(changes), func(i int) {
		if c := changes[i]; c.Op == driver.Increment {
			results[i] = w.increment(ctx, c)
		} else {
			results[i] = w.change(ctx, c, attempt)
		}
	})
	return results, nil
}

// maxAttempts is how often a change is sent although each time the document then says that its condition holds. Once
// may be a race with another write, or a document that cannot be read. More say that somebody edited znodes.
const maxAttempts = 5

// errLost says that the connection broke on the way.
var errLost = errors.New("the connection broke")

// change sends a Put or Delete.
func (w *writer) change(ctx context.Context, c driver.Change, attempt int) dbstore.Result {
	p := w.place(c.Doc.Kind, c.Doc.ID)
	if attempt >= maxAttempts {
		err := fmt.Errorf("the znodes of %s, and its entry in %s, do not fit each other: somebody edited them. "+
			"Delete them with deleteall", p.document, p.index)
		return dbstore.Result{Err: err, Malformed: err}
	}
	generation := w.client.generation.Load()
	err := w.send(ctx, p, c, attempt)
	switch {
	case err == nil:
		w.live.note(c)
		return dbstore.Result{Written: true}
	case !isAnswer(err):
		return dbstore.Result{Err: err, Unread: true}
	}
	// The refusal went through the ensemble as a transaction does. What the same server shows next is at least as new.
	old, malformed, err := w.look(ctx, c.Doc.Kind, c.Doc.ID)
	if err != nil || w.client.generation.Load() != generation {
		return dbstore.Result{Err: errors.Join(errLost, err), Unread: true}
	}
	return dbstore.Result{Found: old, Malformed: malformed}
}

// send sends a Put or Delete as usual. Where the condition did not hold, and the document says that it does, a creation
// takes the place of what cannot be read, and directories that somebody deleted are made again.
func (w *writer) send(ctx context.Context, p place, c driver.Change, attempt int) error {
	if attempt > 0 {
		f, err := w.get(ctx, p.document)
		if err != nil {
			return err
		}
		if _, malformed := decode(c.Doc.Kind, c.Doc.ID, f); malformed != nil {
			return w.replaceMalformed(ctx, p, c, f)
		}
	}
	err := w.multi(ctx, w.plan(p, c))
	if attempt == 1 && errors.Is(err, zk.ErrNoNode) {
		err = errors.Join(err, w.setup.makeDirectories(ctx))
	}
	return err
}

// replaceMalformed puts a creation in the place of a document whose data cannot be read, as they were found. It could
// never be changed otherwise.
func (w *writer) replaceMalformed(ctx context.Context, p place, c driver.Change, f found) error {
	revisions, err := w.children(ctx, p.document, false)
	if err != nil {
		return err
	}
	ops := []any{replace(p.document, dbstore.Encode(c.Doc), f.stat.Version)}
	for _, name := range revisions {
		ops = append(ops, remove(p.document+"/"+name), remove(p.index+"/"+p.name+"@"+name))
	}
	ops = append(ops, w.make(p.revision(c.Doc.Rev), nil), w.make(p.entry(c.Doc.Rev), nil))
	return w.multi(ctx, append(ops, w.touches(c)...))
}

// plan is the operations of a change. The revision is a znode's name and not ZooKeeper's version, which begins at 0
// again when a znode is deleted and created.
func (w *writer) plan(p place, c driver.Change) []any {
	var ops []any
	if c.IfRev > 0 {
		ops = append(ops, remove(p.revision(c.IfRev)), remove(p.entry(c.IfRev)))
	}
	switch {
	case c.Op == driver.Delete:
		ops = append(ops, remove(p.document))
	case c.IfRev > 0:
		ops = append(ops, replace(p.document, dbstore.Encode(c.Doc), -1))
	default:
		ops = append(ops, w.make(p.document, dbstore.Encode(c.Doc)))
	}
	if c.Op != driver.Delete {
		ops = append(ops, w.make(p.revision(c.Doc.Rev), nil), w.make(p.entry(c.Doc.Rev), nil))
	}
	return append(ops, w.touches(c)...)
}

// touches are writes of the signal znodes of those who may wait for this change.
func (w *writer) touches(c driver.Change) []any {
	var ops []any
	switch {
	case c.Doc.Kind == driver.KindSession && !w.live.heartbeat(c):
		ops = append(ops, replace(w.sessionSignal(), nil, -1))
	case c.Doc.Kind.Info().Notify != driver.NotifyFree:
	case c.Op == driver.Delete:
		ops = append(ops, replace(w.freeSignal(c.Doc.Kind, c.Doc.ID), nil, -1))
	default:
		if c.Doc.Next != "" {
			ops = append(ops, replace(w.freeSignal(c.Doc.Kind, c.Doc.Next), nil, -1))
		}
		if c.Doc.Next != "" || c.Doc.Session == "" && c.IfRev > 0 {
			ops = append(ops, replace(w.freeSignal(c.Doc.Kind, c.Doc.ID), nil, -1))
		}
	}
	return ops
}

func (w *writer) make(path string, data []byte) any {
	return &zk.CreateRequest{Path: path, Data: data, Acl: w.acl()}
}

func replace(path string, data []byte, version int32) any {
	return &zk.SetDataRequest{Path: path, Data: data, Version: version}
}

func remove(path string) any { return &zk.DeleteRequest{Path: path, Version: -1} }

// increment raises a counter. ZooKeeper cannot count, so it is a change of what was read. The store sends it again
// where somebody was faster. Increments of one process take turns.
func (w *writer) increment(ctx context.Context, c driver.Change) dbstore.Result {
	turn := w.turns[hash(c.Doc.ID, len(w.turns))]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return dbstore.Result{Err: context.Cause(ctx)}
	}
	p := w.place(c.Doc.Kind, c.Doc.ID)
	f, err := w.get(ctx, p.document)
	if err != nil {
		return dbstore.Result{Err: err}
	}
	old, malformed := decode(c.Doc.Kind, c.Doc.ID, f)
	known := old
	if malformed != nil {
		known = &driver.Doc{Kind: c.Doc.Kind, ID: c.Doc.ID, Rev: driver.MaxRev} // it begins again
	}
	put := driver.Change{Op: driver.Put, Doc: dbstore.Incremented(c.Doc, known, w.clock.floor())}
	if old != nil {
		put.IfRev = old.Rev
	}
	if malformed != nil {
		err = w.replaceMalformed(ctx, p, put, f)
	} else {
		err = w.multi(ctx, w.plan(p, put))
	}
	if err != nil && !isAnswer(err) {
		return dbstore.Result{Err: err}
	}
	return dbstore.Result{Written: err == nil, Malformed: malformed}
}

// maxLive bounds what is remembered. A process writes heartbeats of its own session, and marks some others dead.
const maxLive = 1000

// liveSessions remembers at which revision this process wrote a session live. So it knows a heartbeat, which no one is
// to be notified of. What it does not know costs the others a look.
type liveSessions struct {
	mu   sync.Mutex
	revs map[string]int64
}

// heartbeat says whether a change leaves a session live.
func (l *liveSessions) heartbeat(c driver.Change) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.Op == driver.Put && c.Doc.State == driver.StateLive && c.IfRev > 0 && l.revs[c.Doc.ID] == c.IfRev
}

// note remembers a change that was applied.
func (l *liveSessions) note(c driver.Change) {
	if c.Doc.Kind != driver.KindSession {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Op != driver.Put || c.Doc.State != driver.StateLive {
		delete(l.revs, c.Doc.ID)
		return
	}
	if len(l.revs) >= maxLive {
		clear(l.revs)
	}
	l.revs[c.Doc.ID] = c.Doc.Rev
}
