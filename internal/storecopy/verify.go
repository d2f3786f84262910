package storecopy

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// verify compares all of the source with the target. What a replica that waits at the target has written there itself
// is no document that a task depends on.
func (m *mover) verify(ctx context.Context) error {
	for _, kind := range store.Kinds() {
		there, err := m.there(ctx, kind)
		if err != nil {
			return err
		}
		count := 0
		for docs, err := range pages(ctx, m.From, kind) {
			if err != nil {
				return err
			}
			for _, d := range docs {
				count++
				if err := m.compare(d, there[d.ID]); err != nil {
					return err
				}
				delete(there, d.ID)
			}
		}
		if copied := m.report.Documents[kind.Info().Plural]; count != copied {
			return m.differs(kind, "", fmt.Sprintf("%d documents, %d were copied", count, copied))
		}
		if kind == store.KindLock || kind == store.KindValue {
			for id := range there {
				return m.differs(kind, id, "not at the source")
			}
		}
	}
	alive, err := m.alive(ctx)
	for _, s := range alive {
		return running(s)
	}
	return err
}

// compare is about one document of both sides; the zero one is absent.
func (m *mover) compare(from, to store.Doc) error {
	if from.Kind == store.KindGroup {
		if to.Rev < from.Rev {
			return m.differs(from.Kind, from.ID, fmt.Sprintf("revision %d, below %d", to.Rev, from.Rev))
		}
		return nil
	}
	want := m.prepared(from)
	if to.Rev != want.Rev || to.WriterID != want.WriterID || string(to.Body) != string(want.Body) ||
		to.Session != want.Session || to.Next != want.Next || to.State != want.State || to.Count != want.Count ||
		to.Group != want.Group || to.Suspended != want.Suspended || to.Expires != want.Expires {
		return m.differs(from.Kind, from.ID, fmt.Sprintf("revision %d, %d at the source", to.Rev, from.Rev))
	}
	return nil
}

func (m *mover) differs(kind store.Kind, id, how string) error {
	return fmt.Errorf(
		"%s %.80q differs at %s: %s: somebody writes to one of the stores: stop it, and copy again", kind, id,
		m.To.Name, how,
	)
}

// there is all of a kind at the target, by ID.
func (m *mover) there(ctx context.Context, kind store.Kind) (map[string]store.Doc, error) {
	all := map[string]store.Doc{}
	for docs, err := range pages(ctx, m.To, kind) {
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			all[d.ID] = d
		}
	}
	return all, nil
}
