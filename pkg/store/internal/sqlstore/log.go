package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Reasons of [driver.Problem].
const (
	// ReasonLogBroken: changes are written, and the log of what watchers are notified of is not.
	ReasonLogBroken = "StoreLogBroken"
	// ReasonIncomplete: an index, a trigger or a function is missing, and this user may not make it.
	ReasonIncomplete = "StoreIncomplete"
)

// noting is how the changes of a transaction are noted for watchers. The log never has a change fail: one that fails
// with its line, and of which the database says so, is sent again as the next one.
type noting int

const (
	noted  noting = iota // by a line of the log each
	marked               // by a number that has watches look at everything
	silent               // not at all
)

// noting sends changes, and again with less said of them where failed reports that this may have been the trouble, and
// that nothing was written.
func (c *core) noting(send func(how noting) error, failed func(how noting, err error) bool) error {
	var trouble error
	for how := c.state.way(); ; how++ {
		err := send(how)
		if err != nil && how != silent && failed(how, err) {
			if how == noted {
				trouble = err
			}
			continue
		}
		if err == nil && trouble != nil {
			c.noteTrouble(trouble)
		}
		return err
	}
}

// logState is what is known of the log.
type logState struct {
	mu      sync.Mutex
	trouble error    // why lines are not written; nil: they are
	missing []string // what makes the pieces that are missing
	denied  error    // why this user cannot make them
}

// way is how changes are noted at first.
func (l *logState) way() noting {
	if l.broken() != nil {
		return marked
	}
	return noted
}

func (l *logState) broken() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// incomplete reports whether something is missing that this user may not make.
func (l *logState) incomplete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.denied != nil
}

// noteTrouble notes why lines are not written, nil that they are. It logs what is new.
func (c *core) noteTrouble(err error) {
	c.state.mu.Lock()
	before := c.state.trouble
	c.state.trouble = err
	c.state.mu.Unlock()
	switch {
	case before == nil && err != nil:
		c.log.Error(err, "Changes cannot be noted for watches: they look at everything after each")
	case before != nil && err == nil:
		c.log.Info("Changes are noted for watches again")
	}
}

// problems are those of the layout.
func (c *core) problems() []driver.Problem {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	var all []driver.Problem
	if err := c.state.trouble; err != nil {
		all = append(all, driver.Problem{Reason: ReasonLogBroken, Message: fmt.Sprintf(
			"changes cannot be noted in %s, so replicas look at everything after each, which is slower: %v; %s",
			c.sql.log.table, err, c.mends(err, c.state.denied != nil),
		)})
	}
	if err := c.state.denied; err != nil {
		all = append(all, driver.Problem{Reason: ReasonIncomplete, Message: fmt.Sprintf(
			"a part of the tables is missing, and this user may not make it: %v; as their owner run: %s", err,
			strings.Join(c.state.missing, "; "),
		)})
	}
	return all
}

// mends says what to do about a log that takes no lines. It is made again where it is missing.
func (c *core) mends(err error, incomplete bool) string {
	switch {
	case incomplete:
		return "make first what is missing, as " + ReasonIncomplete + " says"
	case c.dialect.Busy(err):
		return "wait for who has it"
	case errors.Is(Sentinel(c.dialect, err), driver.ErrInvalid):
		return "run: GRANT SELECT, INSERT, UPDATE, DELETE ON " + c.sql.log.table + " TO the user of store.uri"
	}
	return "run: DROP TABLE " + c.sql.log.table + "; a replica whose user may make tables makes it again"
}

// notes reports whether a change may concern a watch, as far as that is known without the document that was there.
func notes(c driver.Change) bool {
	switch c.Doc.Kind.Info().Notify {
	case driver.NotifyAlways:
		return true
	case driver.NotifyStates:
		return c.Op == driver.Delete || c.IfRev == 0 || c.Doc.State != driver.StateLive
	case driver.NotifyFree:
		return c.Op == driver.Delete || c.Doc.Next != "" || c.Doc.Session == "" && c.IfRev > 0
	case driver.NotifyNever:
	}
	return false
}

// complete makes the pieces of the layout again that are missing. What this user may not make is a problem. Tables of
// documents are not made again: they would be empty, under sessions that live.
func (s *schema) complete(ctx context.Context) error {
	lacking, err := s.lacking(ctx, s.query)
	if err != nil {
		return err
	}
	var denied error
	if len(lacking) > 0 {
		denied = s.database.setUp(ctx, func(run Run) error {
			lacking, err := s.lacking(ctx, run) // another process may have been faster
			for i := 0; err == nil && i < len(lacking); i++ {
				err = lacking[i].make(ctx, run)
			}
			return err
		})
		if denied != nil && !errors.Is(Sentinel(s.dialect, denied), driver.ErrInvalid) {
			return denied
		}
	}
	var texts []string
	for _, p := range lacking {
		texts = append(texts, p.Create...)
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.missing, s.state.denied = texts, denied
	return nil
}

// make makes what there is not. Then all steps are taken.
func (s *schema) make(ctx context.Context) (taken int, err error) {
	if taken, err = s.setUp(ctx); err != nil {
		return 0, err
	}
	return taken, s.complete(ctx)
}

// lacking are the pieces that are missing. They are counted at once.
func (s *schema) lacking(ctx context.Context, run Run) ([]piece, error) {
	pieces := s.sql.schema.pieces
	counts, queries := make([]int, len(pieces)), []Statement(nil)
	for i, p := range pieces {
		if p.Name != "" {
			queries = append(queries, counting(p.Count, p.Name, &counts[i]))
		}
	}
	if err := run(ctx, queries...); err != nil {
		return nil, err
	}
	var lacking []piece
	for i, p := range pieces {
		switch {
		case p.Name == "" || counts[i] > 0:
		case p.docs:
			return nil, fmt.Errorf("%w: the table %s is missing, and was made before: restore it, or drop all tables of "+
				"the cluster and restart the replicas", driver.ErrInvalid, p.Name)
		default:
			lacking = append(lacking, p)
		}
	}
	return lacking, nil
}

// errNumbers says that a line got a number that watches do not look at.
var errNumbers = errors.New("its numbers are below those of older lines")

// tryLog writes a line of no kind, which no watch passes on. Where that fails, or its number is not the largest as
// where a sequence was not restored with its table, the log is emptied: watches see that and look at everything, and
// numbers go on from wherever they are. No right is needed for it that changes do not need.
func (s *schema) tryLog(ctx context.Context) error {
	newest, err := s.line(ctx)
	behind := errors.Is(err, errNumbers)
	if behind || newest > 0 && s.answered(err) && !s.dialect.Busy(err) {
		// Not where somebody else has done so meanwhile: lines that followed are of use.
		if s.database.write(ctx, Statement{Text: s.sql.log.empty, Args: []any{newest}}) == nil {
			_, err = s.line(ctx)
		}
	}
	if err == nil || behind || s.answered(err) {
		s.noteTrouble(err)
		return nil
	}
	return err
}

func (c *core) answered(err error) bool { return err != nil && c.dialect.Answered(err) }

// line writes one. newest is the largest number before.
func (s *schema) line(ctx context.Context) (newest int64, err error) {
	name, own := rand.Text(), int64(0)
	number := func(into *int64) func(Row) error { return func(row Row) error { return row.Scan(into) } }
	var oldest int64
	err = s.database.write(
		ctx,
		Statement{Text: s.sql.log.last, Row: func(row Row) error { return row.Scan(&oldest, &newest) }},
		Statement{Text: s.sql.log.add, Args: []any{"", name, "", ""}},
		Statement{Text: s.sql.log.find, Args: []any{name}, Row: number(&own)},
	)
	if err == nil && own <= newest {
		err = errNumbers
	}
	return newest, err
}

const (
	// mendEvery is how often one tries to mend the log, and lookEvery how often one looks for pieces that this user may
	// not make, while there are calls.
	mendEvery = 5 * time.Second
	lookEvery = time.Minute
	// choreTimeout bounds what is done beside calls. What is left over is for the next time.
	choreTimeout = 10 * time.Second
)

// mender mends the log beside the calls that meet what is wrong with it.
type mender struct {
	chore
	tables *schema
	makes  bool // what is missing, and not only lines of the log
	mends  dbstore.Pace
	looks  dbstore.Pace
}

// tend mends what is known to be wrong, now and then.
func (m *mender) tend() {
	switch state := &m.tables.state; {
	case state.broken() != nil:
		m.mend()
	case state.incomplete() && m.looks.Let(time.Now()):
		m.run(func(ctx context.Context) {
			_, err := m.tables.make(ctx)
			m.report(err)
		})
	}
}

// mend looks at everything.
func (m *mender) mend() {
	if !m.mends.Let(time.Now()) {
		return
	}
	m.run(func(ctx context.Context) {
		var err error
		if m.makes {
			_, err = m.tables.make(ctx)
		}
		if err == nil {
			err = m.tables.tryLog(ctx)
		}
		m.report(err)
	})
}

func (m *mender) report(err error) {
	if err != nil {
		m.tables.log.V(1).Info("The log of notifications was not mended", "error", err.Error())
	}
}

// chore is something that is done beside the calls of a store, once at a time.
type chore struct {
	ctx     context.Context // until the store ends
	cancel  context.CancelFunc
	running atomic.Bool
	begun   sync.WaitGroup
}

func (c *chore) begin() { c.ctx, c.cancel = context.WithCancel(context.Background()) }

func (c *chore) end() {
	c.cancel()
	c.begun.Wait()
}

// run begins f, unless it runs.
func (c *chore) run(f func(context.Context)) {
	if !c.running.CompareAndSwap(false, true) {
		return
	}
	c.begun.Go(func() {
		defer c.running.Store(false)
		ctx, cancel := context.WithTimeout(c.ctx, choreTimeout)
		defer cancel()
		f(ctx)
	})
}
