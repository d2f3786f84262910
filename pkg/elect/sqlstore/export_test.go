package sqlstore

import (
	"context"
	"database/sql"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// What tests reach in for.
const (
	LogKept = logKept
	Columns = columns
)

// DB is the store's pool.
func (s *Store) DB() *sql.DB { return s.db }

// Query is the statement of a List.
func (s *Store) Query(kind store.Kind, q store.Query) (string, []any) {
	return s.sql.kinds[kind].query(q)
}

// OnWriter runs a statement on the connection that writes.
func (s *Store) OnWriter(ctx context.Context, text string) error {
	w := <-s.writer
	defer func() { s.writer <- w }()
	if err := w.connect(ctx); err != nil {
		return err
	}
	_, err := w.conn.ExecContext(ctx, text)
	return err
}

// A Watch that looks only when it is asked to.
type Watch struct{ *watch }

// NewWatch opens one.
func (s *Store) NewWatch(ctx context.Context, in store.Interest) (Watch, error) {
	w := &watch{Notifier: store.NewNotifier(), store: s, in: in}
	return Watch{w}, w.open(ctx)
}

// Look looks once.
func (w Watch) Look(ctx context.Context) error { return w.look(ctx) }

// Bounds are the oldest and the newest line of the log.
func (w Watch) Bounds(ctx context.Context) (oldest, newest int64, err error) { return w.bounds(ctx) }

// Disconnect lets go of the database.
func (w Watch) Disconnect() { w.disconnect() }
