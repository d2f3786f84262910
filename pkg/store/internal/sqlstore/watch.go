package sqlstore

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

const (
	// logKept is how many lines of the log of notifications stay. A watcher that is further behind gets a Resync.
	logKept = 2000
	// maxLines is how many lines are read with their documents; more are one Resync.
	maxLines = 256
	// linesBefore is how far below the newest line a watch looks for gaps when it begins: for what is being written.
	linesBefore = maxGaps
)

// watch is one tail: what has it look, and where in the log it is.
type watch struct {
	backend *Backend
	in      driver.Interest
	emit    func(dbstore.Event)
	signal  Signal
	cursor  cursor
	lost    int64 // what logStatements.lost was, 0: nothing yet
}

// Tail implements [dbstore.Watcher]. Events carry the documents as they are by then. Those of a file come within the
// poll interval.
func (b *Backend) Tail(ctx context.Context, in driver.Interest, begun func(), emit func(dbstore.Event)) error {
	w := &watch{backend: b, in: in, emit: emit}
	defer w.disconnect()
	if err := w.open(ctx); err != nil {
		return err
	}
	begun()
	return w.run(ctx)
}

// open takes the position in the log from which lines are sent. The signal comes first: what is written between is
// looked at twice rather than never.
func (w *watch) open(ctx context.Context) error {
	var err error
	if w.signal, err = w.backend.database.signal(ctx, w.backend.poll); err != nil {
		return err
	}
	var log logged
	read := func(last int64) error {
		return w.backend.retry(ctx, func() (err error) {
			log, err = w.read(ctx, last, nil)
			return err
		})
	}
	err = read(math.MaxInt64)
	w.lost = log.lost
	if err != nil {
		if log.lost != 0 && w.backend.answered(err) {
			w.cursor.moveTo(0)
			return nil // there is no log; once it is there, all of it is new
		}
		return err
	}
	newest := log.newest
	w.cursor.oldest = log.oldest
	w.cursor.moveTo(max(log.oldest-1, newest-linesBefore, 0))
	if err = read(w.cursor.last); err != nil {
		return err
	}
	w.take(log, time.Now())
	// Also without a line that shows it: numbers up to there were given before.
	w.cursor.last = max(w.cursor.last, newest)
	return nil
}

func (w *watch) disconnect() {
	if w.signal != nil {
		w.signal.Close()
	}
}

// run looks until ctx ends or the database is not what it was. What a failure held up is looked for again at intervals.
func (w *watch) run(ctx context.Context) error {
	again := time.NewTicker(w.backend.poll)
	defer again.Stop()
	for behind := false; ; {
		var err error
		if behind {
			select {
			case <-again.C:
			case <-ctx.Done():
			}
			err = ctx.Err()
		} else {
			err = w.signal.Wait(ctx)
		}
		if err == nil {
			err = w.deliver(ctx)
			behind = err != nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && errors.Is(Sentinel(w.backend.dialect, err), driver.ErrInvalid) {
			return err
		}
	}
}

// deliver sends the lines of the log that were not sent.
func (w *watch) deliver(ctx context.Context) error {
	now := time.Now()
	asked := w.cursor.asked(now)
	log, err := w.read(ctx, w.cursor.last, asked)
	if log.lost != w.lost && log.lost != 0 {
		w.lost = log.lost
		w.emit(dbstore.Event{Resync: true})
	}
	if err != nil {
		if log.lost != 0 && w.backend.answered(err) {
			return errors.New("read the log: " + err.Error()) // the store is there: the watch goes on
		}
		return err
	}
	back := w.cursor.goesBack(log.oldest)
	if back {
		w.backend.mender.mend() //nolint:contextcheck // it may outlast the watch
	}
	if back || w.cursor.lost(log.oldest, log.newest, asked) {
		w.cursor.moveTo(log.newest)
		w.emit(dbstore.Event{Resync: true})
		return nil
	}
	before := w.cursor.copied()
	found := w.take(log, now)
	if len(found) > maxLines {
		found = []dbstore.Event{{Resync: true}}
	} else if err = w.addDocs(ctx, found); err != nil {
		w.cursor = before // so that they are sent at the next look
		return err
	}
	for _, e := range found {
		w.emit(e)
	}
	return nil
}

// logged is what was read of the log.
type logged struct {
	lost           int64 // see logStatements; 0: not known
	oldest, newest int64 // of all lines
	lines          []line
}

type line struct {
	seq int64
	doc driver.Doc
}

// read reads the lines after a number, and those in the gaps. What was marked is read also where the log cannot be.
func (w *watch) read(ctx context.Context, last int64, gaps []int64) (log logged, err error) {
	text, args := w.backend.since(last, gaps)
	queries := []Statement{
		{Text: w.backend.sql.log.lost, Row: func(row Row) error { return row.Scan(&log.lost) }},
		{
			Text: w.backend.sql.log.last,
			Row:  func(row Row) error { return row.Scan(&log.oldest, &log.newest) },
		},
		{Text: text, Args: args, Row: func(row Row) error {
			var l line
			err := row.Scan(&l.seq, &l.doc.Kind, &l.doc.ID, &l.doc.Group, &l.doc.Next)
			log.lines = append(log.lines, l)
			return err
		}},
	}
	read := func(queries []Statement) error {
		log = logged{}
		return w.backend.database.query(ctx, Common, queries...)
	}
	err = read(queries)
	if w.backend.answered(err) && read(queries[:1]) != nil {
		err = read(queries[1:])
	}
	return log, err
}

// take moves the cursor on, and returns what concerns this watcher. Of several lines that name one document, the first
// stands for all.
func (w *watch) take(log logged, now time.Time) []dbstore.Event {
	var found []dbstore.Event
	type name struct {
		kind driver.Kind
		id   string
	}
	seen := map[name]bool{}
	for _, l := range log.lines {
		n := name{l.doc.Kind, l.doc.ID}
		if w.cursor.read(l.seq, now) && !seen[n] && w.in.Wants(l.doc) {
			seen[n] = true
			found = append(found, dbstore.Event{About: l.doc})
		}
	}
	return found
}

// since is the statement for the lines after a number, and those of some numbers below.
func (c *core) since(last int64, gaps []int64) (text string, args []any) {
	text, args = c.sql.log.since+`seq > ?`, []any{last}
	switch {
	case c.texts.Arrays:
		text, args = text+` OR seq = ANY(?)`, append(args, gaps)
	case len(gaps) > 0:
		text += ` OR seq IN (` + placeholders(len(gaps)) + `)`
		for _, gap := range gaps {
			args = append(args, gap)
		}
	}
	return c.texts.numbered(text + ` ORDER BY seq`), args
}

// addDocs reads the documents that events are about.
func (w *watch) addDocs(ctx context.Context, found []dbstore.Event) error {
	named := map[driver.Kind][]string{}
	for _, e := range found {
		named[e.About.Kind] = append(named[e.About.Kind], e.About.ID)
	}
	if len(named) == 0 {
		return nil
	}
	var read dbstore.Page
	err := w.backend.retry(ctx, func() error {
		read = dbstore.Page{}
		var queries []Statement
		for kind, ids := range named {
			queries = append(queries, w.backend.byID(kind, ids, &read))
		}
		return w.backend.database.query(ctx, Common, queries...)
	})
	for i, d := range read.Docs {
		for j := range found {
			if found[j].About.Kind == d.Kind && found[j].About.ID == d.ID {
				found[j].Doc = &read.Docs[i]
			}
		}
	}
	return err
}

const (
	// gapKept is how long a number that is not there is asked for. A transaction that takes longer than that is noticed
	// only by those who look at intervals.
	gapKept = time.Minute
	// maxGaps is how many are asked for. With more than that, everything is to be looked at.
	maxGaps = 500
)

// cursor is how far a watch has read the log. Lines are numbered before their transactions commit. So a smaller number
// may turn up after a larger one, where several clients write at once. Where no one has several writers there are no
// gaps.
type cursor struct {
	last   int64               // the largest number that was read
	gaps   map[int64]time.Time // smaller ones that were not, and since when
	oldest int64               // of all lines, as they were read last; 0: not known
}

// read notes that a line was read. False: it was read before.
func (p *cursor) read(number int64, now time.Time) bool {
	if number <= p.last {
		_, gap := p.gaps[number]
		delete(p.gaps, number)
		return gap
	}
	for missing := max(p.last+1, number-maxGaps-1); missing < number; missing++ {
		p.gaps[missing] = now
	}
	p.last = number
	return true
}

// asked are the gaps, from the smallest to the largest. Those that are too old are forgotten.
func (p *cursor) asked(now time.Time) []int64 {
	maps.DeleteFunc(p.gaps, func(_ int64, since time.Time) bool { return now.Sub(since) > gapKept })
	return slices.Sorted(maps.Keys(p.gaps))
}

// lost says that lines may be gone that were not read, where the log holds those from oldest to newest: too many, or
// dropped before they were read, or the database came from a backup.
func (p *cursor) lost(oldest, newest int64, asked []int64) bool {
	return newest < p.last || oldest > p.last+1 || len(p.gaps) > maxGaps ||
		len(asked) > 0 && asked[0] < oldest
}

// goesBack reports whether a line turned up below all that were there: the numbers were set back, as where a sequence
// was not restored with its table, or one was written late in a short log.
func (p *cursor) goesBack(oldest int64) bool {
	before := p.oldest
	p.oldest = oldest
	return 0 < oldest && oldest < before
}

// moveTo begins again at a number.
func (p *cursor) moveTo(number int64) { p.last, p.gaps = number, map[int64]time.Time{} }

// copied is the cursor as it is now.
func (p *cursor) copied() cursor { return cursor{p.last, maps.Clone(p.gaps), p.oldest} }
