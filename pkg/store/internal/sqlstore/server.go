package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
)

// server is the engine of a [Server].
type server struct {
	*core
	dialect Server
	name    string
	// batches lets one transaction at a time be of other documents than sessions. So claims never hold every connection
	// when something is to be read.
	batches chan struct{}
	// deaths lets one transaction at a time be of others' sessions. It writes the log, and somebody may hold that.
	deaths  chan struct{}
	changes atomic.Int64
	trims   trims
}

func newServer(c *core, d Server, cluster string) *server {
	s := &server{
		core: c, dialect: d, name: Prefix(cluster, d.Texts().MaxName), batches: make(chan struct{}, 1),
		deaths: make(chan struct{}, 1),
	}
	s.trims.begin()
	return s
}

func (*server) now() int64 { return 0 }

func (*server) prepare(context.Context) error { return nil }

func (s *server) query(ctx context.Context, lane Lane, queries ...Statement) error {
	return s.dialect.Query(ctx, lane, queries...)
}

// transact waits for its turn, where it needs one, and not longer than for one try: while somebody holds a table, those
// who need it do not hold up the others.
func (s *server) transact(
	ctx context.Context, lane Lane, turn chan struct{}, statements ...Statement,
) ([]int64, error) {
	if turn != nil {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.dialect.Transact(ctx, lane, statements...)
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
	b.lane, b.turn = s.way(changes)
	b.quiet = s.dialect.ServerTexts().Note != nil
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
	quiet    bool  // in the first round, changes of a session by itself are tried as heartbeats, which change no state
	lane     Lane
	turn     chan struct{} // of which there is one at a time; nil: any number
}

// way is how changes get to the database. A session writes its own document, which is one heartbeat at a time.
func (s *server) way(changes []store.Change) (lane Lane, turn chan struct{}) {
	lane = Sessions
	for _, c := range changes {
		switch {
		case c.Doc.Kind != store.KindSession:
			return Common, s.batches
		case !ofItself(c):
			turn = s.deaths
		}
	}
	return lane, turn
}

// confirm makes sure of writes that were found. A server that was started again shows also those that its standby never
// acknowledged. A write behind them waits for that, and so for them. Its line of the log is of no kind: no watch
// passes it on.
func (s *server) confirm(ctx context.Context, b *batch) error {
	if len(b.found) == 0 {
		return nil
	}
	err := s.retry(ctx, func() error {
		_, err := s.transact(ctx, b.lane, b.turn, Statement{Text: s.sql.log.add, Args: []any{"", "", "", ""}})
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
			change, before, after := s.change(b.changes[at], b.quiet)
			statements = append(statements, before...)
			place[i] = len(statements)
			statements = append(append(statements, change), after...)
			statements = append(statements, s.get(b.changes[at].Doc.Kind, b.changes[at].Doc.ID, &found[i]))
		}
		counts, err = s.transact(ctx, b.lane, b.turn, statements...)
		return err
	})
	if err != nil {
		return left, err
	}
	b.quiet = false
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

// change is a change with its condition, and the statements around it that write the log. A quiet one of a session by
// itself is conditioned on the state as well: then there is nothing to note, and a heartbeat needs no other table.
func (s *server) change(c store.Change, quiet bool) (change Statement, before, after []Statement) {
	st := s.sql.kinds[c.Doc.Kind]
	if quiet && c.Doc.Kind == store.KindSession && c.Op == store.Put && c.IfRev > 0 && ofItself(c) {
		args := append(slices.Clip(s.row(c.Doc)[1:]), c.Doc.ID, c.IfRev, c.Doc.State)
		return Statement{Text: st.updateQuietly, Args: args}, nil, nil
	}
	if note := s.dialect.ServerTexts().Note; note != nil {
		before, after = note(c, st.table, s.sql.log.table)
	}
	return s.loud(c, st), before, after
}

// ofItself says that a change of a session's document is made by that session.
func ofItself(c store.Change) bool { return c.Doc.WriterID.Session == c.Doc.ID }

// loud is a change with its condition, whatever is to be noted of it.
func (s *server) loud(c store.Change, st kindStatements) Statement {
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
