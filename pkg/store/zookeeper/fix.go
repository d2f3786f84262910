package zookeeper

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

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
	err = w.multi(ctx, append(ops, w.rings(c)...))
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if failed := w.setup.makeDirectories(ctx); failed != nil { // of the bells, which somebody deleted
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
