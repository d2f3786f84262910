package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// server is the engine of a [Server].
type server struct {
	*core
	dialect Server
	name    string
	// batches lets one transaction at a time be of other documents than sessions. So claims never hold every connection
	// when a heartbeat is due.
	batches chan struct{}
	changes atomic.Int64
	trims   trims
}

func newServer(c *core, d Server, cluster string) *server {
	s := &server{core: c, dialect: d, name: Prefix(cluster, d.Texts().MaxName), batches: make(chan struct{}, 1)}
	s.trims.begin()
	return s
}

func (*server) now() int64 { return 0 }

func (*server) prepare(context.Context) error { return nil }

func (s *server) query(ctx context.Context, queries ...Statement) error {
	return s.dialect.Query(ctx, queries...)
}

func (s *server) setUp(ctx context.Context, f func(run Run) error) error {
	return s.retry(ctx, func() error { return s.dialect.SetUp(ctx, s.name, f) })
}

func (s *server) signal(ctx context.Context, _ time.Duration) (Signal, error) {
	return s.dialect.Signal(ctx, s.name)
}

func (s *server) close(ctx context.Context) error {
	s.trims.end()
	return s.dialect.Close(ctx)
}

// apply sends each change with its condition, and a query for the document as it is then. A change that wrote nothing
// is judged by that document. Where the condition holds by now, another write came between, and the change is sent
// again. With an error, changes that ended before have their outcomes, and the others are of unknown outcome.
func (s *server) apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	if slices.ContainsFunc(changes, func(c store.Change) bool { return c.Doc.Kind != store.KindSession }) {
		select {
		case s.batches <- struct{}{}:
			defer func() { <-s.batches }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	// In one order for all, so that two transactions cannot wait for each other in a circle.
	left := make([]int, len(changes))
	for i := range left {
		left[i] = i
	}
	slices.SortFunc(left, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(changes[a].Doc.Kind, changes[b].Doc.Kind), cmp.Compare(changes[a].Doc.ID, changes[b].Doc.ID),
		)
	})
	b := &batch{changes: changes, outcomes: make([]store.Outcome, len(changes))}
	var err error
	for len(left) > 0 && err == nil {
		left, err = s.round(ctx, b, left)
	}
	if err = cmp.Or(err, s.confirm(ctx, b)); err != nil {
		return b.outcomes, err
	}
	s.trim(len(changes)) //nolint:contextcheck // it may outlast the call
	return b.outcomes, nil
}

// batch is what one apply sends.
type batch struct {
	changes  []store.Change
	outcomes []store.Outcome
	found    []int // those that were written before, by a call whose answer was lost
}

// confirm makes sure of writes that were found. A server that was started again shows also those that its standby never
// acknowledged. A write behind them waits for that, and so for them. Its line of the log is of no kind: no watch
// passes it on.
func (s *server) confirm(ctx context.Context, b *batch) error {
	if len(b.found) == 0 {
		return nil
	}
	err := s.retry(ctx, func() error {
		_, err := s.dialect.Transact(ctx, Statement{Text: s.sql.log.add, Args: []any{"", "", "", ""}})
		return err
	})
	if err != nil {
		for _, at := range b.found {
			b.outcomes[at] = store.Outcome{Status: store.Unknown}
		}
	}
	return err
}

// round sends those changes that are left, notes their outcomes, and returns those that have none yet.
func (s *server) round(ctx context.Context, b *batch, left []int) (again []int, err error) {
	found, place := make([]*store.Doc, len(left)), make([]int, len(left))
	var counts []int64
	err = s.retry(ctx, func() (err error) {
		clear(found)
		statements := make([]Statement, 0, 2*len(left))
		for i, at := range left {
			before, after := s.notes(b.changes[at])
			statements = append(statements, before...)
			place[i] = len(statements)
			statements = append(append(statements, s.change(b.changes[at])), after...)
			statements = append(statements, s.get(b.changes[at].Doc.Kind, b.changes[at].Doc.ID, &found[i]))
		}
		counts, err = s.dialect.Transact(ctx, statements...)
		return err
	})
	if err != nil {
		return left, err
	}
	for i, at := range left {
		if counts[place[i]] > 0 {
			b.outcomes[at] = store.Outcome{Status: store.Applied}
			continue
		}
		out, write := store.Judge(b.changes[at], s.usable(found[i]))
		if write {
			again = append(again, at)
			continue
		}
		if out.Status == store.Applied {
			b.found = append(b.found, at)
		}
		b.outcomes[at] = out
	}
	return again, nil
}

// notes are the statements around a change that write the log.
func (s *server) notes(c store.Change) (before, after []Statement) {
	note := s.dialect.ServerTexts().Note
	if note == nil {
		return nil, nil
	}
	return note(c, s.sql.kinds[c.Doc.Kind].table, s.sql.log.table)
}

// change is a change with its condition.
func (s *server) change(c store.Change) Statement {
	st := s.sql.kinds[c.Doc.Kind]
	switch {
	case c.Op == store.Delete:
		return Statement{Text: st.removeAt, Args: []any{c.Doc.ID, c.IfRev}}
	case c.Op == store.Increment:
		return Statement{Text: st.increment, Args: []any{c.Doc.ID, max(c.Doc.Rev, 1)}}
	case c.IfRev == 0:
		return Statement{Text: st.insert, Args: s.row(c.Doc)}
	}
	return Statement{Text: st.update, Args: append(s.row(c.Doc)[1:], c.Doc.ID, c.IfRev)}
}
