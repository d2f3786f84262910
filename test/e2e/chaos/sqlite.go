//go:build linux

package chaos

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the chaos test takes the write lock of the database itself

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/e2e/harness"
)

// sqliteBackend is a database file.
type sqliteBackend struct {
	path string
	db   *sql.DB

	held *sql.Conn // by the present fault
	stop func()    // ends the present fault
}

func newSQLite(tb testing.TB, dir string) *sqliteBackend {
	tb.Helper()
	b := &sqliteBackend{path: filepath.Join(dir, "locks.db"), stop: func() {}}
	db, err := sql.Open("sqlite", b.path+"?_pragma=busy_timeout(2000)&_pragma=journal_mode(wal)")
	if err != nil {
		tb.Fatal(err)
	}
	b.db = db
	tb.Cleanup(func() { _ = db.Close() }) // the file goes anyway
	return b
}

// URI is what replicas are given.
func (b *sqliteBackend) URI() string { return "sqlite:" + b.path }

// Documents edits what is kept.
func (b *sqliteBackend) Documents() documentStore { return sqliteDocuments{b.db} }

// Begin begins a fault.
func (b *sqliteBackend) Begin(ctx context.Context, f Fault) (said string, err error) {
	if f.Kind == WriteLocked {
		return "", b.hold(ctx)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { b.often(ctx, f) })
	b.stop = func() { cancel(); done.Wait() }
	return "", nil
}

// often holds the write lock for a moment, again and again.
func (b *sqliteBackend) often(ctx context.Context, f Fault) {
	for i := uint64(0); ctx.Err() == nil; i++ {
		if b.hold(ctx) == nil {
			_ = clock.Sleep(ctx, time.Duration(f.Pick>>i%8+1)*80*time.Millisecond)
			_ = b.release(ctx) // the connection is closed with it
		}
		_ = clock.Sleep(ctx, time.Duration(f.Pick>>(i+3)%8+1)*20*time.Millisecond)
	}
}

func (b *sqliteBackend) hold(ctx context.Context) (err error) {
	if b.held, err = b.db.Conn(ctx); err != nil {
		b.held = nil
		return err
	}
	if _, err := b.held.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		_ = b.held.Close() // it holds nothing
		b.held = nil
		return fmt.Errorf("take the write lock: %w", err)
	}
	return nil
}

func (b *sqliteBackend) release(ctx context.Context) error {
	if b.held == nil {
		return nil
	}
	_, err := b.held.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	_ = b.held.Close() // goes back to the pool
	b.held = nil
	return err
}

// End ends a fault.
func (b *sqliteBackend) End(ctx context.Context, _ Fault) (said string, err error) {
	return "", b.Heal(ctx)
}

// Heal makes everything well, whatever was left.
func (b *sqliteBackend) Heal(ctx context.Context) error {
	b.stop()
	b.stop = func() {}
	return b.release(ctx)
}

// sqliteDocuments edits tables CLUSTER_KINDS.
type sqliteDocuments struct{ db *sql.DB }

func table(kind string) string { return `"` + cluster + "_" + kind + `s"` }

func (d sqliteDocuments) ids(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := d.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // only read
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (d sqliteDocuments) Sessions(ctx context.Context) ([]string, error) {
	return d.ids(ctx, "SELECT id FROM "+table("session")+" WHERE state = 'live' ORDER BY id")
}

func (d sqliteDocuments) Owned(ctx context.Context) ([]string, error) {
	return d.ids(ctx, "SELECT id FROM "+table("lock")+" WHERE grp = ? AND session <> '' ORDER BY id", harness.Group)
}

func (d sqliteDocuments) exec(ctx context.Context, text string, args ...any) error {
	_, err := d.db.ExecContext(ctx, text, args...)
	return err
}

func (d sqliteDocuments) Delete(ctx context.Context, kind, id string) error {
	return d.exec(ctx, "DELETE FROM "+table(kind)+" WHERE id = ?", id)
}

func (d sqliteDocuments) Raise(ctx context.Context, kind, id string) error {
	return d.exec(ctx, "UPDATE "+table(kind)+" SET rev = rev + 1 WHERE id = ?", id)
}

func (d sqliteDocuments) Reset(ctx context.Context, kind, id string) error {
	return d.exec(ctx, "UPDATE "+table(kind)+" SET count = 0 WHERE id = ?", id)
}

func (d sqliteDocuments) DeleteFree(ctx context.Context) error {
	return d.exec(ctx, "DELETE FROM "+table("lock")+" WHERE session = ''")
}
