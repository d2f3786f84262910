package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

const (
	// logKept is how many lines of the log of notifications stay. A watcher that is further behind gets a Resync.
	logKept = 2000
	// maxLines is how many lines are read with their documents; more are one Resync.
	maxLines = 256
	// linesBefore is how far below the newest line a watch looks for gaps when it begins: for what is being written.
	linesBefore = maxGaps
)

// watch is one Watch: what has it look, and where in the log it is.
type watch struct {
	*store.Notifier
	store  *Store
	in     store.Interest
	signal Signal
	place  place
}

// Watch implements [store.Store]. Notifications carry the documents as they are by then. Those of a file come within
// the poll interval.
func (s *Store) Watch(ctx context.Context, in store.Interest) (<-chan store.Notification, error) {
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("%s: watch: %w", s.dialect, err)
	}
	w := &watch{Notifier: store.NewNotifier(), store: s, in: in}
	opened := make(chan error, 1)
	ctx, release := s.life.Bound(ctx)
	if !s.life.Go(func() {
		defer release()
		defer w.disconnect()
		defer w.Close()
		err := w.open(ctx)
		opened <- err
		if err == nil {
			w.run(ctx)
		}
	}) {
		release()
		opened <- adapter.ErrClosed
	}
	if err := <-opened; err != nil {
		return nil, s.translate("watch", err)
	}
	return w.C(), nil
}

// open takes the place in the log from which lines are sent. The signal comes first: what is written between is looked
// at twice rather than never.
func (w *watch) open(ctx context.Context) error {
	var err error
	if w.signal, err = w.store.engine.signal(ctx, w.store.poll); err != nil {
		return err
	}
	log, err := w.read(ctx, math.MaxInt64, nil)
	if err != nil {
		return err
	}
	newest := log.newest
	w.place.moveTo(max(log.oldest-1, newest-linesBefore, 0))
	if log, err = w.read(ctx, w.place.last, nil); err != nil {
		return err
	}
	w.take(log, time.Now())
	// Also without a line that shows it: numbers up to there were given before.
	w.place.last = max(w.place.last, newest)
	return nil
}

func (w *watch) disconnect() {
	if w.signal != nil {
		w.signal.Close()
	}
}

// run looks until ctx ends or the database is not what it was. What a failure held up is looked for again at intervals.
func (w *watch) run(ctx context.Context) {
	again := time.NewTicker(w.store.poll)
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
			return
		}
		if err != nil && errors.Is(w.store.sentinel(err), store.ErrInvalid) {
			w.store.watchEnded(w.store.translate("watch", err))
			return
		}
	}
}

// watchEnded logs why a watch has ended: as an error once until one works again, since callers begin another one at
// once.
func (s *Store) watchEnded(err error) {
	if s.broken.Swap(true) {
		s.log.V(1).Info("A watch of the store has ended again", "error", err.Error())
		return
	}
	s.log.Error(err, "A watch of the store has ended")
}

// deliver sends the lines of the log that were not sent.
func (w *watch) deliver(ctx context.Context) error {
	now := time.Now()
	asked := w.place.asked(now)
	log, err := w.read(ctx, w.place.last, asked)
	if err != nil {
		return err
	}
	if w.place.lost(log.oldest, log.newest, asked) {
		w.place.moveTo(log.newest)
		w.Send(store.Notification{Resync: true})
		return nil
	}
	before := w.place.copied()
	found := w.take(log, now)
	if len(found) > maxLines {
		found = []store.Notification{{Resync: true}}
	} else if err = w.addDocs(ctx, found); err != nil {
		w.place = before // so that they are sent at the next look
		return err
	}
	for _, n := range found {
		w.store.broken.Store(false)
		w.Send(n)
	}
	return nil
}

// logged is what was read of the log.
type logged struct {
	oldest, newest int64 // of all lines
	lines          []line
}

type line struct {
	seq int64
	doc store.Doc
}

// read reads the lines after a number, and those in the gaps.
func (w *watch) read(ctx context.Context, last int64, gaps []int64) (log logged, err error) {
	text, args := w.store.since(last, gaps)
	err = w.store.retry(ctx, func() error {
		log = logged{}
		return w.store.engine.query(
			ctx, Common,
			Statement{
				Text: w.store.sql.log.last,
				Row:  func(row Row) error { return row.Scan(&log.oldest, &log.newest) },
			},
			Statement{Text: text, Args: args, Row: func(row Row) error {
				var l line
				err := row.Scan(&l.seq, &l.doc.Kind, &l.doc.ID, &l.doc.Group, &l.doc.Next)
				log.lines = append(log.lines, l)
				return err
			}},
		)
	})
	return log, err
}

// take moves the place on, and returns what concerns this watcher. Of several lines that name one document, the first
// stands for all.
func (w *watch) take(log logged, now time.Time) []store.Notification {
	var found []store.Notification
	seen := map[store.Notification]bool{}
	for _, l := range log.lines {
		n := store.Notification{Kind: l.doc.Kind, ID: l.doc.ID}
		if w.place.read(l.seq, now) && !seen[n] && w.in.Wants(l.doc) {
			seen[n] = true
			found = append(found, n)
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
		text += ` OR seq IN (` + marks(len(gaps)) + `)`
		for _, gap := range gaps {
			args = append(args, gap)
		}
	}
	return c.texts.numbered(text + ` ORDER BY seq`), args
}

// addDocs reads the documents that notifications name.
func (w *watch) addDocs(ctx context.Context, found []store.Notification) error {
	named := map[store.Kind][]string{}
	for _, n := range found {
		named[n.Kind] = append(named[n.Kind], n.ID)
	}
	if len(named) == 0 {
		return nil
	}
	var read store.Reply
	err := w.store.retry(ctx, func() error {
		read = store.Reply{}
		var queries []Statement
		for kind, ids := range named {
			queries = append(queries, w.store.byID(kind, ids, &read))
		}
		return w.store.engine.query(ctx, Common, queries...)
	})
	docs := read.Docs
	for i := range docs {
		for j := range found {
			if found[j].Kind == docs[i].Kind && found[j].ID == docs[i].ID {
				found[j].Doc = &docs[i]
			}
		}
	}
	return err
}
