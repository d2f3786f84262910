package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// server is the [database] of a [Server].
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
	trims   chore // deletions of old lines of the log
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

// batch is changes on their way, as one transaction.
type batch struct {
	changes  []driver.Change
	order    []int
	quiet    bool
	notes    bool          // the transaction may write the log
	found    []*driver.Doc // by changes, behind each of them
	position []int         // by changes: which statement
}

// cas sends each change with its condition, and a query for the document as it is then.
func (s *server) cas(ctx context.Context, changes []driver.Change, attempt int) ([]dbstore.Result, error) {
	// In one order for all, so that two transactions cannot wait for each other in a circle.
	order := make([]int, len(changes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(changes[a].Doc.Kind, changes[b].Doc.Kind), cmp.Compare(changes[a].Doc.ID, changes[b].Doc.ID),
		)
	})
	b := &batch{
		changes: changes, order: order, found: make([]*driver.Doc, len(changes)), position: make([]int, len(changes)),
		// At first changes of a session by itself are tried as heartbeats, which change no state.
		quiet: attempt == 0 && s.dialect.ServerTexts().Note != nil,
	}
	lane, turn := s.way(changes)
	var counts []int64
	err := s.retry(ctx, func() error {
		return s.noting(func(how noting) (err error) {
			counts, err = s.transact(ctx, lane, turn, s.statements(b, how)...)
			return err
		}, func(how noting, err error) bool {
			if how == noted {
				return b.notes && s.dialect.NoteFailed(err)
			}
			return s.answered(err) && !s.dialect.Busy(err)
		})
	})
	if err != nil {
		return nil, err
	}
	results := make([]dbstore.Result, len(changes))
	for i := range changes {
		results[i] = dbstore.Result{Written: counts[b.position[i]] > 0, Found: b.found[i]}
	}
	s.trim(len(changes)) //nolint:contextcheck // it may outlast the call
	return results, nil
}

// statements are those of a batch. Those that note changes are left out where they are marked instead.
func (s *server) statements(b *batch, how noting) []Statement {
	clear(b.found)
	texts := s.dialect.ServerTexts()
	statements := make([]Statement, 0, 2*len(b.changes)+2)
	if how != noted && texts.Mute != "" {
		statements = append(statements, Statement{Text: texts.Mute, Row: func(Row) error { return nil }})
	}
	b.notes = texts.Note == nil
	for _, at := range b.order {
		c := b.changes[at]
		change, before, after := s.change(c, b.quiet)
		b.notes = b.notes || len(before)+len(after) > 0
		if how != noted {
			before, after = nil, nil
		}
		statements = append(statements, before...)
		b.position[at] = len(statements)
		statements = append(append(statements, change), after...)
		statements = append(statements, s.get(c.Doc.Kind, c.Doc.ID, &b.found[at]))
	}
	if how == marked && slices.ContainsFunc(b.changes, notes) {
		statements = append(statements, Statement{Text: s.sql.log.mark})
	}
	return statements
}

// way is how changes get to the database. A session writes its own document, which is one heartbeat at a time.
func (s *server) way(changes []driver.Change) (lane Lane, turn chan struct{}) {
	lane = Sessions
	for _, c := range changes {
		switch {
		case c.Doc.Kind != driver.KindSession:
			return Common, s.batches
		case !ofItself(c):
			turn = s.deaths
		}
	}
	return lane, turn
}

// confirm writes a line of the log. A server that was started again also shows writes that its standby never
// acknowledged. A write behind them waits for that, and so for them. The line is of no kind: no watch passes it on.
// Where the log takes none, a mark is written in its place.
func (s *server) confirm(ctx context.Context, changes []driver.Change) error {
	lane, turn := s.way(changes)
	return s.retry(ctx, func() error {
		_, err := s.transact(ctx, lane, turn, Statement{Text: s.sql.log.add, Args: []any{"", "", "", ""}})
		if !s.answered(err) {
			return err
		}
		counts, again := s.transact(ctx, lane, turn, Statement{Text: s.sql.log.mark})
		if again != nil || counts[0] == 0 {
			return err
		}
		return nil
	})
}

// write is a transaction of the store's own. It counts as a batch: so a read has a connection meanwhile.
func (s *server) write(ctx context.Context, statements ...Statement) error {
	_, err := s.transact(ctx, Common, s.batches, statements...)
	return err
}

// change is a change with its condition, and the statements around it that write the log. A quiet one of a session by
// itself is conditioned on the state as well: then there is nothing to note, and a heartbeat needs no other table.
func (s *server) change(c driver.Change, quiet bool) (change Statement, before, after []Statement) {
	st := s.sql.kinds[c.Doc.Kind]
	if quiet && c.Doc.Kind == driver.KindSession && c.Op == driver.Put && c.IfRev > 0 && ofItself(c) {
		args := append(slices.Clip(s.row(c.Doc)[1:]), c.Doc.ID, c.IfRev, c.Doc.State)
		return Statement{Text: st.updateQuietly, Args: args}, nil, nil
	}
	if note := s.dialect.ServerTexts().Note; note != nil {
		before, after = note(c, st.table, s.sql.log.table)
	}
	return s.loud(c, st), before, after
}

// ofItself says that a change of a session's document is made by that session.
func ofItself(c driver.Change) bool { return c.Doc.WriterID.Session == c.Doc.ID }

// loud is a change with its condition, whatever is to be noted of it.
func (s *server) loud(c driver.Change, st kindStatements) Statement {
	switch {
	case c.Op == driver.Delete:
		return Statement{Text: st.removeAt, Args: []any{c.Doc.ID, c.IfRev}}
	case c.Op == driver.Increment:
		return Statement{Text: st.increment, Args: []any{c.Doc.ID, max(c.Doc.Rev, 1)}}
	case c.IfRev == 0:
		return Statement{Text: st.insert, Args: s.row(c.Doc)}
	}
	return Statement{Text: st.update, Args: append(s.row(c.Doc)[1:], c.Doc.ID, c.IfRev)}
}

// trimEvery is after how many changes a store trims the log. Others may have written what it trims.
const trimEvery = 1000

// trim deletes old lines of the log now and then, in a transaction of its own: those that write could wait for each
// other's lines. It is no part of the call that was due to begin it, which has its outcomes by then. What fails is done
// the next time.
func (s *server) trim(changes int) {
	after := s.changes.Add(int64(changes))
	if after/trimEvery == (after-int64(changes))/trimEvery {
		return
	}
	s.trims.run(func(ctx context.Context) {
		if err := s.trimNow(ctx); err != nil {
			s.log.V(1).Info("The log of notifications was not trimmed", "error", err.Error())
		}
	})
}

func (s *server) trimNow(ctx context.Context) error {
	return s.write(ctx, Statement{Text: s.sql.log.trim, Args: []any{int64(logKept)}})
}
