package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// writer changes documents.
type writer struct {
	*reader
	setup    *setup
	live     *liveSessions
	counters *counters
}

// CAS implements [engine.Backend]: each change is one multi, and all are on their way at once.
func (w *writer) CAS(ctx context.Context, changes []store.Change, attempt int) ([]engine.Result, error) {
	results := make([]engine.Result, len(changes))
	each(len(changes), func(i int) {
		if changes[i].Op == store.Increment {
			results[i] = w.increment(ctx, changes[i])
			return
		}
		results[i] = w.change(ctx, changes[i], attempt)
	})
	return results, nil
}

// change sends a Put or Delete.
func (w *writer) change(ctx context.Context, c store.Change, attempt int) engine.Result {
	p := w.place(c.Doc.Kind, c.Doc.ID)
	var err error
	course := w.client.course.Load()
	if attempt < fixAfter {
		err = w.multi(ctx, w.plan(p, c))
	} else {
		err = w.fix(ctx, p, c)
	}
	switch {
	case err == nil:
		w.live.note(c)
		return engine.Result{Written: true}
	case !isAnswer(err):
		return w.resolveUnknown(ctx, c, err)
	}
	// The refusal went through the ensemble as a transaction does. What the same server shows next is at least as new.
	old, malformed, err := w.look(ctx, c.Doc.Kind, c.Doc.ID)
	if err != nil || w.client.course.Load() != course {
		return w.resolveUnknown(ctx, c, errors.Join(errLost, err))
	}
	return engine.Result{Found: old, Malformed: malformed}
}

// errLost says that the connection broke on the way.
var errLost = errors.New("the connection broke")

// resolveUnknown finds out what became of a change whose answer was lost. It never sends it again: the first one may yet
// arrive, and only its caller knows whether a second one does harm.
func (w *writer) resolveUnknown(ctx context.Context, c store.Change, cause error) engine.Result {
	unknown := func(err error) engine.Result {
		out := engine.Unknown(w.translate("write "+string(c.Doc.Kind), err))
		return engine.Result{Outcome: &out}
	}
	if isInvalid(cause) || c.Op == store.Increment {
		return unknown(cause)
	}
	found, err := w.read(ctx, c.Doc.Kind, []string{c.Doc.ID})
	if err != nil {
		return unknown(fmt.Errorf("%w; then read back: %w", cause, err))
	}
	var old *store.Doc
	if len(found.Docs) == 1 {
		old = &found.Docs[0]
	}
	if _, holds := store.Judge(c, old); holds {
		return unknown(fmt.Errorf("%w; the write is not there, and may yet arrive", cause))
	}
	return engine.Result{Found: old}
}

// plan is the operations of a change. The revision is a znode's name and not ZooKeeper's version, which begins at 0
// again when a znode is deleted and created.
func (w *writer) plan(p place, c store.Change) []any {
	var ops []any
	if c.IfRev > 0 {
		ops = append(ops, remove(p.revision(c.IfRev)), remove(p.entry(c.IfRev)))
	}
	switch {
	case c.Op == store.Delete:
		ops = append(ops, remove(p.document))
	case c.IfRev > 0:
		ops = append(ops, replace(p.document, engine.Encode(c.Doc), -1))
	default:
		ops = append(ops, w.make(p.document, engine.Encode(c.Doc)))
	}
	if c.Op != store.Delete {
		ops = append(ops, w.make(p.revision(c.Doc.Rev), nil), w.make(p.entry(c.Doc.Rev), nil))
	}
	return append(ops, w.touches(c)...)
}

// touches are writes of the signal znodes of those who may wait for this change.
func (w *writer) touches(c store.Change) []any {
	var ops []any
	switch {
	case c.Doc.Kind == store.KindSession && !w.live.heartbeat(c):
		ops = append(ops, replace(w.sessionSignal(), nil, -1))
	case c.Doc.Kind.Info().Notify != store.NotifyFree:
	case c.Op == store.Delete:
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
	return &zk.CreateRequest{Path: path, Data: data, Acl: w.acl}
}

func replace(path string, data []byte, version int32) any {
	return &zk.SetDataRequest{Path: path, Data: data, Version: version}
}

func remove(path string) any { return &zk.DeleteRequest{Path: path, Version: -1} }

// increment raises a counter. ZooKeeper cannot count, so it is a change of what was read, again and again until no one
// was faster. Increments of one process take turns.
func (w *writer) increment(ctx context.Context, c store.Change) engine.Result {
	leave, err := w.counters.enter(ctx, c.Doc.ID)
	if err != nil {
		return w.resolveUnknown(ctx, c, err)
	}
	defer leave()
	p := w.place(c.Doc.Kind, c.Doc.ID)
	for attempt := 0; ; attempt++ {
		f, err := w.get(ctx, p.document)
		if err != nil {
			return w.resolveUnknown(ctx, c, err)
		}
		old, malformed := decode(c.Doc.Kind, c.Doc.ID, f)
		known := old
		if malformed != nil {
			known = &store.Doc{Kind: c.Doc.Kind, ID: c.Doc.ID, Rev: store.MaxRev} // unreadable: it begins again
		}
		put := store.Change{Op: store.Put, Doc: engine.Incremented(c.Doc, known, w.clock.floor())}
		if old != nil {
			put.IfRev = old.Rev
		}
		if err = w.raise(ctx, p, put, attempt); err == nil {
			return engine.Result{Written: true, Malformed: malformed}
		}
		if !isAnswer(err) {
			return w.resolveUnknown(ctx, c, err)
		}
	}
}

// raise sends it as usual, or, every other time after others may have been faster, so that edited znodes are fixed.
func (w *writer) raise(ctx context.Context, p place, put store.Change, attempt int) error {
	if attempt < 2*fixAfter || attempt%2 == 0 {
		return w.multi(ctx, w.plan(p, put))
	}
	return w.fix(ctx, p, put)
}

// counters has the increments of one group take turns.
type counters struct {
	mu    sync.Mutex
	turns map[string]*turn
}

type turn struct {
	free  chan struct{} // holds one value while it is no one's turn
	users int
}

// enter waits for one's turn; leave ends it.
func (c *counters) enter(ctx context.Context, id string) (leave func(), err error) {
	c.mu.Lock()
	t := c.turns[id]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		c.turns[id] = t
	}
	t.users++
	c.mu.Unlock()
	gone := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(c.turns, id)
		}
	}
	select {
	case <-t.free:
		return func() { t.free <- struct{}{}; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, context.Cause(ctx)
	}
}

// fixAfter is how often a change is sent as usual, although each time the document then says that its condition holds.
// Once may be a race with another write. Twice says that somebody edited znodes.
const fixAfter = 2

// fix performs a change on a document whose znodes do not fit each other: its data cannot be read, or its revision
// is not among its children or not in the index, or even directories are missing. It takes away what it found, and
// anyone else who changes the document at the same time makes it fail.
func (w *writer) fix(ctx context.Context, p place, c store.Change) error {
	f, err := w.get(ctx, p.document)
	if err != nil {
		return err
	}
	d, _ := decode(c.Doc.Kind, c.Doc.ID, f)
	if _, holds := store.Judge(c, d); !holds {
		return zk.ErrBadVersion // somebody was faster: the caller looks again
	}
	ops, err := w.clear(ctx, p, f.stat != nil)
	if err != nil {
		return err
	}
	switch {
	case c.Op == store.Delete: // of a document that is there, or Judge had said otherwise
		ops = append(ops, &zk.DeleteRequest{Path: p.document, Version: f.stat.Version})
	case f.stat == nil:
		ops = append(ops, w.make(p.document, engine.Encode(c.Doc)))
	default:
		ops = append(ops, replace(p.document, engine.Encode(c.Doc), f.stat.Version))
	}
	if c.Op != store.Delete {
		ops = append(ops, w.make(p.revision(c.Doc.Rev), nil), w.make(p.entry(c.Doc.Rev), nil))
	}
	w.log.Info("A document in the store was edited out of band: fixing its znodes", "document", p.document)
	err = w.multi(ctx, append(ops, w.touches(c)...))
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if failed := w.setup.makeDirectories(ctx); failed != nil { // of the signals, which somebody deleted
		return failed
	}
	return err // an answer: the caller tries again
}

// clear removes all revisions of a document, from its children and from the index.
func (w *writer) clear(ctx context.Context, p place, there bool) ([]any, error) {
	var ops []any
	if there {
		revisions, err := w.children(ctx, p.document, false)
		if err != nil {
			return nil, err
		}
		for _, name := range revisions {
			ops = append(ops, remove(p.document+"/"+name))
		}
	}
	entries, err := w.children(ctx, p.index, false)
	if errors.Is(err, zk.ErrNoNode) {
		return ops, w.setup.makeDirectories(ctx)
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry, p.name+"@") {
			ops = append(ops, remove(p.index+"/"+entry))
		}
	}
	return ops, nil
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
func (l *liveSessions) heartbeat(c store.Change) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.Op == store.Put && c.Doc.State == store.StateLive && c.IfRev > 0 && l.revs[c.Doc.ID] == c.IfRev
}

// note remembers a change that was applied.
func (l *liveSessions) note(c store.Change) {
	if c.Doc.Kind != store.KindSession {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Op != store.Put || c.Doc.State != store.StateLive {
		delete(l.revs, c.Doc.ID)
		return
	}
	if len(l.revs) >= maxLive {
		clear(l.revs)
	}
	l.revs[c.Doc.ID] = c.Doc.Rev
}
