package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

const (
	// intactEvery is after how many looks a watch makes sure that its database is still the one that others open.
	intactEvery = 25
	// maxLines is how many lines are read with their documents; more are one Resync.
	maxLines = 256
)

// watch is one Watch: a connection that looks whether another one has written, and where in the log it is.
type watch struct {
	*store.Notifier
	store   *Store
	in      store.Interest
	conn    *sql.Conn
	looks   int
	asks    *sql.Stmt // Texts.Changed on conn: prepared, since an idle watch does little else
	version int64     // what it said last
	seq     int64     // the last line of the log that was sent
}

// Watch implements [store.Store]. Notifications come within the poll interval and carry the documents as they are by
// then.
func (s *Store) Watch(ctx context.Context, in store.Interest) (<-chan store.Notification, error) {
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("%s: watch: %w", s.dialect, err)
	}
	ctx, done, err := s.life.enter(ctx)
	if err != nil {
		return nil, s.translate("watch", err)
	}
	w := &watch{Notifier: store.NewNotifier(), store: s, in: in}
	if err := s.retry(ctx, func() error { return w.open(ctx) }); err != nil {
		w.disconnect()
		done()
		return nil, s.translate("watch", err)
	}
	go func() {
		defer done()
		defer w.disconnect()
		defer w.Close()
		w.run(ctx)
	}()
	return w.C(), nil
}

// open connects and takes the place in the log from which lines are sent. The version is read first: what is written
// between is looked at twice rather than never.
func (w *watch) open(ctx context.Context) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	var oldest int64
	return w.conn.QueryRowContext(ctx, w.store.sql.log.last).Scan(&oldest, &w.seq)
}

func (w *watch) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.store.db.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn = conn
	w.asks, err = conn.PrepareContext(ctx, w.store.texts.Changed)
	if err == nil {
		w.version, err = w.askVersion(ctx)
	}
	if err != nil {
		w.disconnect()
	}
	return err
}

// askVersion returns a number that changes when another connection has written. It is brief, so it
// is not worth the goroutine that would watch over a context.
func (w *watch) askVersion(ctx context.Context) (version int64, err error) {
	err = w.asks.QueryRowContext(context.WithoutCancel(ctx)).Scan(&version)
	return version, err
}

func (w *watch) disconnect() {
	if w.asks != nil {
		_ = w.asks.Close()
		w.asks = nil
	}
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// run looks until ctx ends or the database is not what it was.
func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(w.store.poll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := w.look(ctx)
		switch {
		case err == nil, w.store.dialect.Busy(err):
		case errors.Is(w.store.sentinel(err), store.ErrInvalid):
			return
		default:
			// The place in the log stays, so that nothing is lost with the connection.
			w.disconnect()
		}
	}
}

// look sends what was written since the last look, if anything was.
func (w *watch) look(ctx context.Context) error {
	if w.looks%intactEvery == 0 {
		if err := w.store.dialect.Intact(); err != nil {
			return err
		}
	}
	w.looks++
	if w.conn == nil {
		if err := w.connect(ctx); err != nil {
			return err
		}
		err := w.deliver(ctx)
		if err != nil {
			w.disconnect() // so that it is sent at the next look
		}
		return err
	}
	version, err := w.askVersion(ctx)
	if err != nil || version == w.version {
		return err
	}
	if err := w.deliver(ctx); err != nil {
		return err
	}
	w.version = version
	return nil
}

// deliver sends the lines of the log after the last one that was sent.
func (w *watch) deliver(ctx context.Context) error {
	oldest, newest, err := w.bounds(ctx)
	if err != nil || newest == w.seq {
		return err
	}
	if newest < w.seq || oldest > w.seq+1 {
		// Lines are missing: dropped before they were sent, or the database came from a backup.
		w.Send(store.Notification{Resync: true})
		w.seq = newest
		return nil
	}
	found, last, err := w.since(ctx)
	if err != nil {
		return err
	}
	if len(found) > maxLines {
		found = []store.Notification{{Resync: true}}
	} else if err := w.addDocs(ctx, found); err != nil {
		return err
	}
	for _, n := range found {
		w.Send(n)
	}
	// newest was read first: what is in between may be somebody else's only.
	w.seq = max(newest, last)
	return nil
}

func (w *watch) bounds(ctx context.Context) (oldest, newest int64, err error) {
	err = w.conn.QueryRowContext(ctx, w.store.sql.log.last).Scan(&oldest, &newest)
	return oldest, newest, err
}

// since reads the lines that concern this watcher; of several that name one document, the first stands for all.
func (w *watch) since(ctx context.Context) (found []store.Notification, last int64, err error) {
	rows, err := w.conn.QueryContext(ctx, w.store.sql.log.since, w.seq)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = rows.Close() }()
	seen := map[store.Notification]bool{}
	for rows.Next() {
		var d store.Doc
		if err := rows.Scan(&last, &d.Kind, &d.ID, &d.Group, &d.Next); err != nil {
			return nil, 0, err
		}
		n := store.Notification{Kind: d.Kind, ID: d.ID}
		if !seen[n] && w.in.Wants(d) {
			seen[n] = true
			found = append(found, n)
		}
	}
	return found, last, rows.Err()
}

// addDocs reads the documents that notifications name.
func (w *watch) addDocs(ctx context.Context, found []store.Notification) error {
	named := map[store.Kind][]string{}
	for _, n := range found {
		named[n.Kind] = append(named[n.Kind], n.ID)
	}
	for kind, ids := range named {
		docs, err := w.store.byID(ctx, w.conn, kind, ids)
		if err != nil {
			return err
		}
		for i := range docs {
			for j := range found {
				if found[j].Kind == kind && found[j].ID == docs[i].ID {
					found[j].Doc = &docs[i]
				}
			}
		}
	}
	return nil
}
