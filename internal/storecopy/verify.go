package storecopy

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// verify compares all of the source with the target. What a replica that waits at the target has written there itself
// is no document that a task depends on.
func (m *mover) verify(ctx context.Context) error {
	for _, kind := range driver.Kinds() {
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
		if err := m.compareOthers(kind, there); err != nil {
			return err
		}
	}
	left, err := alive(ctx, m.From)
	for _, s := range left {
		return running(s)
	}
	return err
}

// compareOthers is about what the target has and the source has not. Counters that the source had lost were made.
func (m *mover) compareOthers(kind driver.Kind, there map[string]driver.Doc) error {
	switch kind {
	case driver.KindGroup:
		for counter, rev := range m.tokens {
			if d := there[counter]; !m.counters[counter] && d.Rev < rev {
				return m.differs(kind, counter, fmt.Sprintf("revision %d, below %d", d.Rev, rev))
			}
		}
	case driver.KindLock, driver.KindValue, driver.KindMutex, driver.KindRequest:
		for id := range there {
			return m.differs(kind, id, "not at the source")
		}
	case driver.KindSession, driver.KindMember, driver.KindOverride, driver.KindEvent: // of a replica that waits there
	}
	return nil
}

// stillSealed makes sure that the source has forgotten nothing: a store that loses acknowledged writes may have lost
// the mark, and with it what keeps replicas from running there.
func (m *mover) stillSealed(ctx context.Context) error {
	now, err := readMark(ctx, m.From)
	if err == nil && now.Move != m.from.Move {
		err = fmt.Errorf("%w: the mark of this copy is gone from %s, or was written over", ErrRefused, m.From.Name)
	}
	return err
}

// compare is about one document of both sides; the zero one is absent.
func (m *mover) compare(from, to driver.Doc) error {
	want := m.prepared(from)
	if from.Kind == driver.KindGroup {
		if to.Rev < want.Rev {
			return m.differs(from.Kind, from.ID, fmt.Sprintf("revision %d, below %d", to.Rev, want.Rev))
		}
		return nil
	}
	if to.Rev != want.Rev || to.WriterID != want.WriterID || string(to.Body) != string(want.Body) ||
		to.Session != want.Session || to.Next != want.Next || to.State != want.State || to.Count != want.Count ||
		to.Group != want.Group || to.Suspended != want.Suspended || to.Expires != want.Expires {
		return m.differs(from.Kind, from.ID, fmt.Sprintf("revision %d, %d at the source", to.Rev, from.Rev))
	}
	return nil
}

func (m *mover) differs(kind driver.Kind, id, how string) error {
	return fmt.Errorf(
		"%s %.80q differs at %s: %s: somebody writes to one of the stores: stop it, and copy again", kind, id,
		m.To.Name, how,
	)
}

// there is all of a kind at the target, by ID.
func (m *mover) there(ctx context.Context, kind driver.Kind) (map[string]driver.Doc, error) {
	all := map[string]driver.Doc{}
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
