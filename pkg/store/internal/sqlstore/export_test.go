package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// What tests reach in for.
const (
	LogKept = logKept
	Columns = columns
)

// DB is the pool of a store in a file.
func (b *Backend) DB() *sql.DB { return b.database.(*file).db }

// OnWriter runs a statement on the connection that writes to a file.
func (b *Backend) OnWriter(ctx context.Context, text string) error {
	return b.onWriter(ctx, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, text)
		return err
	})
}

// OnConnection gets the driver's connection that writes to a file.
func (b *Backend) OnConnection(ctx context.Context, do func(conn any)) error {
	return b.onWriter(ctx, func(conn *sql.Conn) error { return conn.Raw(func(c any) error { do(c); return nil }) })
}

func (b *Backend) onWriter(ctx context.Context, do func(*sql.Conn) error) error {
	f := b.database.(*file)
	w := <-f.writer
	defer f.releaseWriter(w)
	if err := w.connect(ctx); err != nil {
		return err
	}
	return do(w.conn)
}

// HoldWriter keeps the writer of a file until release is called. waiting is how many calls wait for it.
func (b *Backend) HoldWriter() (waiting func() int, release func()) {
	f := b.database.(*file)
	w := <-f.writer
	return func() int {
		f.writes.mu.Lock()
		defer f.writes.mu.Unlock()
		return len(f.writes.waiting)
	}, func() { f.releaseWriter(w) }
}

// A Watch that looks only when it is asked to.
type Watch struct {
	*watch
	Events *[]dbstore.Event // what it has emitted
}

// NewWatch opens one.
func (b *Backend) NewWatch(ctx context.Context, in driver.Interest) (Watch, error) {
	events := &[]dbstore.Event{}
	w := &watch{backend: b, in: in, emit: func(e dbstore.Event) { *events = append(*events, e) }}
	return Watch{w, events}, w.open(ctx)
}

// Look looks once.
func (w Watch) Look(ctx context.Context) error { return w.deliver(ctx) }

// Bounds are the oldest and the newest line of the log.
func (w Watch) Bounds(ctx context.Context) (oldest, newest int64, err error) {
	log, err := w.read(ctx, w.cursor.last, nil)
	return log.oldest, log.newest, err
}

// Disconnect lets go of the database.
func (w Watch) Disconnect() { w.disconnect() }

// Place is how far a watch has read.
type Place struct{ cursor }

// MoveTo begins again.
func (p *Place) MoveTo(number int64) { p.moveTo(number) }

// Read notes a line.
func (p *Place) Read(number int64, now time.Time) bool { return p.read(number, now) }

// Asked are the gaps.
func (p *Place) Asked(now time.Time) []int64 { return p.asked(now) }

// GoesBack says that numbers were set back.
func (p *Place) GoesBack(oldest int64) bool { return p.goesBack(oldest) }

// Lost says that lines may be gone.
func (p *Place) Lost(oldest, newest int64, asked []int64) bool { return p.lost(oldest, newest, asked) }

// Learn takes note of the identity of a store.
func (i *Identity) Learn(query, found string) { i.learn(query, found) }
