package storecopy

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// mark is the mark of a move in one store, as read or written last.
type mark struct {
	record.Move
	side Side
	now  int64 // the store's clock when it was read
}

func readMark(ctx context.Context, side Side) (mark, error) {
	m, now, err := record.ReadMove(ctx, side)
	if err != nil {
		return mark{}, fmt.Errorf("read the mark of a move in %s: %w", side.Name, err)
	}
	return mark{Move: m, side: side, now: now}, nil
}

// next is what the mark is to say.
func (m *mark) next(id string, state record.MoveState, other string) record.Move {
	return record.Move{ID: id, State: state, Other: other, Rev: m.Rev}
}

// write writes the mark over the one that was read. Another one that came in between is refused.
func (m *mark) write(ctx context.Context, to record.Move, ids *record.WriterIDs) error {
	doc := to.Doc(ids.Next(), m.now)
	out, err := applyOne(ctx, m.side, store.Change{IfRev: m.Rev, Doc: doc})
	switch {
	case err != nil:
		return fmt.Errorf("write the mark of a move to %s: %w", m.side.Name, err)
	case out.Status != store.Applied:
		return fmt.Errorf(
			"%w: another copy has just marked %s: wait for its end, or for its operator", ErrRefused, m.side.Name,
		)
	}
	to.Rev, to.At = doc.Rev, m.now
	m.Move = to
	return nil
}

// Undo gives a copy up that was cut off: replicas may run on the source again, and never on what is at the target. It
// refuses once the target was complete, since replicas may have run there. The copy back is the way then.
func Undo(ctx context.Context, o Options) error {
	m, err := newMover(ctx, o)
	switch {
	case err != nil:
		return err
	case !m.report.Resumed:
		return fmt.Errorf("%w: %s says of no copy that was cut off: there is nothing to undo", ErrRefused, o.From.Name)
	case m.from.Other != o.To.Name:
		return fmt.Errorf("%w: undo a copy from %s: %w", ErrRefused, o.From.Name, m.from.Err())
	case m.from.State == record.MoveLeft, m.to.ID == m.from.ID && m.to.State == record.MoveArrived:
		return fmt.Errorf(
			"%w: the copy to %s is complete, and replicas may have run there: copy from there to a new store",
			ErrRefused, o.To.Name,
		)
	}
	// The target first: both must never be open.
	if err := m.to.write(ctx, m.given(), &m.ids); err != nil {
		return err
	}
	return m.from.write(ctx, m.from.next(m.from.ID, record.MoveStays, o.To.Name), &m.ids)
}

// given is what the target's mark is to say of a copy that is given up. It is written in any case: a copy that still
// goes on somewhere is refused by its revision.
func (m *mover) given() record.Move {
	switch {
	case m.to.ID == m.from.ID && m.to.State != record.MoveStays:
		return m.to.next(m.from.ID, record.MoveAbandoned, m.From.Name)
	case m.to.Rev == 0: // the copy has not reached it: what may be there is another's
		return m.to.next(m.from.ID, record.MoveStays, m.From.Name)
	}
	return m.to.Move // of another move
}
