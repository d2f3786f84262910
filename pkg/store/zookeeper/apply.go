package zookeeper

import (
	"context"
	"errors"
	"fmt"

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
		return w.unanswered(ctx, c, err)
	}
	// The refusal went through the ensemble as a transaction does. What the same server shows next is at least as new.
	old, malformed, err := w.look(ctx, c.Doc.Kind, c.Doc.ID)
	if err != nil || w.client.course.Load() != course {
		return w.unanswered(ctx, c, errors.Join(errLost, err))
	}
	return engine.Result{Found: old, Malformed: malformed}
}

// errLost says that the connection broke on the way.
var errLost = errors.New("the connection broke")

// unanswered finds out what became of a change whose answer was lost. It never sends it again: the first one may yet
// arrive, and only its caller knows whether a second one does harm.
func (w *writer) unanswered(ctx context.Context, c store.Change, cause error) engine.Result {
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
	return append(ops, w.rings(c)...)
}

// rings are the bells of those who may wait for this change.
func (w *writer) rings(c store.Change) []any {
	var ops []any
	switch {
	case c.Doc.Kind == store.KindSession && !w.live.heartbeat(c):
		ops = append(ops, replace(w.sessionBell(), nil, -1))
	case c.Doc.Kind.Info().Notify != store.NotifyFree:
	case c.Op == store.Delete:
		ops = append(ops, replace(w.freeBell(c.Doc.Kind, c.Doc.ID), nil, -1))
	default:
		if c.Doc.Next != "" {
			ops = append(ops, replace(w.freeBell(c.Doc.Kind, c.Doc.Next), nil, -1))
		}
		if c.Doc.Next != "" || c.Doc.Session == "" && c.IfRev > 0 {
			ops = append(ops, replace(w.freeBell(c.Doc.Kind, c.Doc.ID), nil, -1))
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
