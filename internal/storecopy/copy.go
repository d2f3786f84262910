// Package storecopy moves a stopped cluster's documents from one store to another, so that no token ever goes back.
//
// The order of steps carries the promise. First the source is marked: from then on no session claims there (see
// [record.Move]). Then each session that has stood still for its lease is written dead there, so that it cannot go on.
// Then all documents are copied with their revisions. At last both sides are compared, and only then may replicas run
// on the target. A copy that was cut off goes on where it is run again.
package storecopy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// ErrRefused says that nothing was copied, and why: the cluster runs, a document cannot be read, or the target is not
// empty.
var ErrRefused = errors.New("refused")

// ErrUnfinished says that the source is marked: no replica runs on either side until the same copy is run again, or
// given up by [Undo].
var ErrUnfinished = errors.New("not finished")

// Side is one of the two stores.
type Side struct {
	store.Store
	Name string // its URI without secrets
}

// Options say what to copy. Progress gets each step, in words; nil: no one.
type Options struct {
	From, To Side
	Progress func(step string)
	Clock    elect.Clock // by which sessions are watched; nil: the machine's
}

// Report is what a copy has done.
type Report struct {
	ID        string         `json:"id"` // of the move, as both stores say it
	From      string         `json:"from"`
	To        string         `json:"to"`
	Resumed   bool           `json:"resumed"`   // it went on with one that was cut off
	Documents map[string]int `json:"documents"` // by kind
	Buried    []string       `json:"buried"`    // sessions without a heartbeat that were written dead
	Floor     int64          `json:"floor"`     // no token until now was larger; each key goes on above its own
}

// mover is one run of a copy.
type mover struct {
	Options
	from, to mark
	ids      record.WriterIDs
	report   Report
	tokens   map[string]int64 // by counter: the largest revision among its locks
	counters map[string]bool  // that the source has
	highest  int64            // revision of any document
	floor    int64            // of the source
	sealed   bool             // the source is marked, or may be
}

// Copy moves the documents, or goes on with a copy of the same stores that was cut off. Errors wrap [ErrUnfinished]
// when the source stays marked. Those that wrap [ErrRefused] alone have changed nothing but marks that were taken back.
func Copy(ctx context.Context, o Options) (Report, error) {
	m, err := begin(ctx, o)
	if err == nil {
		err = m.move(ctx)
	}
	switch {
	case err == nil:
		return m.report, nil
	case m.sealed:
		return Report{}, fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	return Report{}, err
}

func (m *mover) move(ctx context.Context) error {
	if m.to.State == record.MoveArrived && m.to.ID == m.from.ID {
		return m.leave(ctx) // all was copied, and maybe replicas run there
	}
	if err := m.seal(ctx); err != nil {
		return err
	}
	if err := m.bring(ctx); err != nil {
		return err
	}
	if err := m.to.write(ctx, m.to.next(m.from.ID, record.MoveArrived, m.From.Name), &m.ids); err != nil {
		return err
	}
	return m.leave(ctx)
}

// bring has all documents at the target, where no one runs.
func (m *mover) bring(ctx context.Context) error {
	if err := m.to.write(ctx, m.to.next(m.from.ID, record.MoveArriving, m.From.Name), &m.ids); err != nil {
		return err
	}
	if err := m.nobodyThere(ctx); err != nil {
		return err
	}
	if err := m.copyAll(ctx); err != nil {
		return err
	}
	m.report.Floor = max(m.highest, m.floor)
	if err := driver.RaiseFloor(ctx, m.To.Store, m.report.Floor); err != nil {
		return fmt.Errorf("raise the floor of %s to %d: %w", m.To.Name, m.report.Floor, err)
	}
	m.step("comparing both sides")
	if err := m.verify(ctx); err != nil {
		return err
	}
	return m.stillSealed(ctx)
}

// begin refuses what cannot become a copy. It changes nothing. With an error it returns what it has read all the same.
func begin(ctx context.Context, o Options) (*mover, error) {
	m, err := newMover(ctx, o)
	if err != nil {
		return m, err
	}
	same := m.report.Resumed && m.to.ID == m.from.ID
	switch {
	case same && (m.to.State == record.MoveLeaving || m.to.State == record.MoveLeft):
		return m, fmt.Errorf("%w: %s and %s are the same store", ErrRefused, o.From.Name, o.To.Name)
	case same && m.to.State == record.MoveArrived: // all was copied
		return m, nil
	case same && m.to.State != record.MoveStays: // after an undo that was cut off nothing is there yet
		return m, m.wantReadable(ctx)
	case m.from.State == record.MoveLeft, m.from.State == record.MoveArriving, m.from.State == record.MoveAbandoned:
		return m, fmt.Errorf("%w: copy from %s: %w", ErrRefused, o.From.Name, m.from.Err())
	case m.report.Resumed && m.from.Other != o.To.Name:
		return m, fmt.Errorf("%w: copy from %s: %w", ErrRefused, o.From.Name, m.from.Err())
	}
	if err := m.wantNothing(ctx); err != nil {
		return m, err
	}
	return m, m.wantReadable(ctx)
}

// newMover reads both marks.
func newMover(ctx context.Context, o Options) (*mover, error) {
	if o.Clock == nil {
		o.Clock = elect.SystemClock()
	}
	m := &mover{
		Options: o, ids: record.WriterIDs{Session: uuid.NewString()}, tokens: map[string]int64{},
		counters: map[string]bool{},
		report:   Report{From: o.From.Name, To: o.To.Name, Documents: map[string]int{}, Buried: []string{}},
	}
	var err error
	if m.from, err = readMark(ctx, o.From); err != nil {
		return m, err
	}
	if m.to, err = readMark(ctx, o.To); err != nil {
		return m, err
	}
	m.report.Resumed = m.from.State == record.MoveLeaving || m.from.State == record.MoveLeft
	m.report.ID, m.sealed = m.from.ID, m.from.State == record.MoveLeaving
	return m, nil
}

// seal lets no one claim at the source any more, and makes sure that no one has until now.
func (m *mover) seal(ctx context.Context) error {
	still, err := m.watch(ctx)
	if err != nil {
		return err
	}
	if m.report.ID == "" || !m.report.Resumed {
		m.report.ID = uuid.NewString()
	}
	was := m.from.Move
	m.sealed = true
	if err := m.from.write(ctx, m.from.next(m.report.ID, record.MoveLeaving, m.To.Name), &m.ids); err != nil {
		return err
	}
	err = m.bury(ctx, still)
	if err == nil || was.State == record.MoveLeaving || !errors.Is(err, ErrRefused) {
		return err
	}
	// It runs after all. Its replicas must not find a mark that no one is about to take back.
	if undo := m.from.write(ctx, m.from.next(m.report.ID, record.MoveStays, m.To.Name), &m.ids); undo != nil {
		return fmt.Errorf("%w; and the mark could not be taken back: %w", err, undo)
	}
	m.sealed = false
	return err
}

// leave says at the source where the cluster is now.
func (m *mover) leave(ctx context.Context) error {
	if m.from.State == record.MoveLeft {
		return nil
	}
	return m.from.write(ctx, m.from.next(m.report.ID, record.MoveLeft, m.To.Name), &m.ids)
}

func (m *mover) step(format string, args ...any) {
	if m.Progress != nil {
		m.Progress(fmt.Sprintf(format, args...))
	}
}

// patience is how long one write is tried.
const patience = time.Minute

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
	out, err := applyOne(ctx, m.side, driver.Change{IfRev: m.Rev, Doc: doc})
	switch {
	case err != nil:
		return fmt.Errorf("write the mark of a move to %s: %w", m.side.Name, err)
	case out.Status != driver.Applied:
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
