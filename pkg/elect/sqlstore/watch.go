package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// watchBuffer is how many hints wait for a slow reader before they are dropped for one Resync.
const watchBuffer = 256

// checkFileEvery is after how many looks a watch makes sure that its file is still the one that others open.
const checkFileEvery = 25

// watch is one Watch: a connection that looks whether another one has written, and where in the log of hints it is.
type watch struct {
	store   *Store
	session string
	conn    *sql.Conn
	hints   chan store.Notification
	looks   int
	asks    *sql.Stmt // PRAGMA data_version on conn: prepared, since an idle watch does little else
	version int64     // what it said last
	seq     int64     // the last line of the log that was told
}

// Watch implements [store.Store]. Hints come within the poll interval and carry the documents as they are when the hint is made.
func (s *Store) Watch(ctx context.Context, session string) (<-chan store.Notification, error) {
	if err := s.begin(); err != nil {
		return nil, s.translate("watch", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(s.closing, cancel) //nolint:contextcheck // Close ends it as well as the caller's context
	w := &watch{store: s, session: session, hints: make(chan store.Notification, watchBuffer)}
	end := func() {
		release()
		cancel()
		w.disconnect()
		s.calls.Done()
	}
	if err := retry(ctx, func() error { return w.open(ctx) }); err != nil {
		end()
		return nil, s.translate("watch", err)
	}
	w.hints <- store.Notification{Resync: true}
	go func() {
		defer end()
		defer close(w.hints)
		w.run(ctx)
	}()
	return w.hints, nil
}

// open connects and takes the place in the log from which hints are told. The version is read first: what is written between is
// looked at twice rather than never.
func (w *watch) open(ctx context.Context) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	var oldest int64
	return w.conn.QueryRowContext(ctx, w.store.sql.hintLast).Scan(&oldest, &w.seq)
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
	w.asks, err = conn.PrepareContext(ctx, `PRAGMA data_version`)
	if err == nil {
		w.version, err = w.askVersion(ctx)
	}
	if err != nil {
		w.disconnect()
	}
	return err
}

// askVersion returns a number that changes when another connection has written. It reads shared memory and does not wait, so it
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

// run tells hints until ctx ends or the file is not what it was.
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
		case err == nil, busy(err):
		case errors.Is(sentinel(err), store.ErrInvalid):
			return
		default:
			// The place in the log stays, so that nothing is lost with the connection.
			w.disconnect()
		}
	}
}

// look tells what was written since the last look, if anything was.
func (w *watch) look(ctx context.Context) error {
	if w.looks%checkFileEvery == 0 {
		if err := w.store.checkFile(); err != nil {
			return err
		}
	}
	w.looks++
	if w.conn == nil {
		if err := w.connect(ctx); err != nil {
			return err
		}
		err := w.tell(ctx)
		if err != nil {
			w.disconnect() // so that it is told at the next look
		}
		return err
	}
	version, err := w.askVersion(ctx)
	if err != nil || version == w.version {
		return err
	}
	if err := w.tell(ctx); err != nil {
		return err
	}
	w.version = version
	return nil
}

// tell sends the lines of the log after the last one that was told.
func (w *watch) tell(ctx context.Context) error {
	oldest, newest, err := w.bounds(ctx)
	if err != nil || newest == w.seq {
		return err
	}
	if newest < w.seq || oldest > w.seq+1 {
		// Lines are missing: dropped before they were told, or the file came from a backup.
		w.send(store.Notification{Resync: true})
		w.seq = newest
		return nil
	}
	hints, last, err := w.since(ctx)
	if err != nil {
		return err
	}
	if err := w.addDocs(ctx, hints); err != nil {
		return err
	}
	for _, h := range hints {
		w.send(h)
	}
	// newest was read first: what is in between may be somebody else's only.
	w.seq = max(newest, last)
	return nil
}

func (w *watch) bounds(ctx context.Context) (oldest, newest int64, err error) {
	err = w.conn.QueryRowContext(ctx, w.store.sql.hintLast).Scan(&oldest, &newest)
	return oldest, newest, err
}

// since reads the lines that concern this watcher; of several that name one document, the first stands for all.
func (w *watch) since(ctx context.Context) (hints []store.Notification, last int64, err error) {
	rows, err := w.conn.QueryContext(ctx, w.store.sql.hintSince, w.seq, w.session)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = rows.Close() }()
	seen := map[store.Notification]bool{}
	for rows.Next() {
		var h store.Notification
		if err := rows.Scan(&last, &h.Kind, &h.ID); err != nil {
			return nil, 0, err
		}
		if !seen[h] {
			seen[h] = true
			hints = append(hints, h)
		}
	}
	return hints, last, rows.Err()
}

// addDocs reads the documents that the hints name.
func (w *watch) addDocs(ctx context.Context, hints []store.Notification) error {
	if len(hints) > watchBuffer {
		return nil // they will be dropped for a Resync as it is
	}
	named := map[store.Kind][]string{}
	for _, h := range hints {
		named[h.Kind] = append(named[h.Kind], h.ID)
	}
	for kind, ids := range named {
		docs, err := w.store.byID(ctx, w.conn, kind, ids)
		if err != nil {
			return err
		}
		for i := range docs {
			for j := range hints {
				if hints[j].Kind == kind && hints[j].ID == docs[i].ID {
					hints[j].Doc = &docs[i]
				}
			}
		}
	}
	return nil
}

// send never waits: when there is no room it takes out what is waiting and puts one Resync in its place. Nobody else sends.
func (w *watch) send(h store.Notification) {
	select {
	case w.hints <- h:
		return
	default:
	}
	for {
		select {
		case <-w.hints:
			continue
		default:
		}
		break
	}
	w.hints <- store.Notification{Resync: true}
}
