package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
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

// cas sends each change with its condition, and a query for the document as it is then.
func (s *server) cas(ctx context.Context, changes []store.Change, attempt int) ([]engine.Result, error) {
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
	// At first changes of a session by itself are tried as heartbeats, which change no state.
	quiet := attempt == 0 && s.dialect.ServerTexts().Note != nil
	lane, turn := s.way(changes)
	found, position := make([]*store.Doc, len(changes)), make([]int, len(changes))
	var counts []int64
	err := s.retry(ctx, func() (err error) {
		clear(found)
		statements := make([]Statement, 0, 2*len(changes))
		for _, at := range order {
			change, before, after := s.change(changes[at], quiet)
			statements = append(statements, before...)
			position[at] = len(statements)
			statements = append(append(statements, change), after...)
			statements = append(statements, s.get(changes[at].Doc.Kind, changes[at].Doc.ID, &found[at]))
		}
		counts, err = s.transact(ctx, lane, turn, statements...)
		return err
	})
	if err != nil {
		return nil, err
	}
	results := make([]engine.Result, len(changes))
	for i := range changes {
		results[i] = engine.Result{Written: counts[position[i]] > 0, Found: found[i]}
	}
	s.trim(len(changes)) //nolint:contextcheck // it may outlast the call
	return results, nil
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

// confirm writes a line of the log. A server that was started again also shows writes that its standby never
// acknowledged. A write behind them waits for that, and so for them. The line is of no kind: no watch passes it on.
func (s *server) confirm(ctx context.Context, changes []store.Change) error {
	lane, turn := s.way(changes)
	return s.retry(ctx, func() error {
		_, err := s.transact(ctx, lane, turn, Statement{Text: s.sql.log.add, Args: []any{"", "", "", ""}})
		return err
	})
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

const (
	// trimEvery is after how many changes a store trims the log. Others may have written what it trims.
	trimEvery = 1000
	// trimTimeout bounds that. What is left over is for the next time.
	trimTimeout = 10 * time.Second
)

// trims are the deletions of old lines of the log. They are no part of the call that was due to begin one: it has its
// outcomes by then.
type trims struct {
	ctx     context.Context // until the store ends
	cancel  context.CancelFunc
	running atomic.Bool // one at a time
	begun   sync.WaitGroup
}

func (t *trims) begin() { t.ctx, t.cancel = context.WithCancel(context.Background()) }

func (t *trims) end() {
	t.cancel()
	t.begun.Wait()
}

// trim deletes old lines of the log now and then, in a transaction of its own: those that write could wait for each
// other's lines. What fails is done the next time.
func (s *server) trim(changes int) {
	after := s.changes.Add(int64(changes))
	if after/trimEvery == (after-int64(changes))/trimEvery || !s.trims.running.CompareAndSwap(false, true) {
		return
	}
	s.trims.begun.Go(func() {
		defer s.trims.running.Store(false)
		ctx, cancel := context.WithTimeout(s.trims.ctx, trimTimeout)
		defer cancel()
		if err := s.trimNow(ctx); err != nil {
			s.log.V(1).Info("The log of notifications was not trimmed", "error", err.Error())
		}
	})
}

// trimNow counts as a batch: so a read has a connection meanwhile.
func (s *server) trimNow(ctx context.Context) error {
	_, err := s.transact(ctx, Common, s.batches, Statement{Text: s.sql.log.trim, Args: []any{int64(logKept)}})
	return err
}
