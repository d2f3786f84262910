package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// readers is how many calls of one store read a file at once; more wait.
const readers = 4

// file is the [database] of a [File].
type file struct {
	*core
	db      *sql.DB
	dialect File
	texts   FileTexts
	anchor  *sql.Conn // open for as long as the store is, see [File.Prepare]

	writer  chan *writer  // holds the one writer while it is free
	writes  writes        // that wait for it
	reading chan struct{} // one for each call that reads
}

func newFile(c *core, db *sql.DB, d File) *file {
	f := &file{
		core: c, db: db, dialect: d, texts: d.FileTexts(), writer: make(chan *writer, 1),
		reading: make(chan struct{}, readers),
	}
	// Not limited here: the writer and each watch keep a connection, and readers must not wait for those.
	db.SetMaxOpenConns(0)
	db.SetMaxIdleConns(readers)
	f.writer <- &writer{file: f}
	return f
}

func (f *file) now() int64 { return f.dialect.Now() }

// newConn opens a connection. It may meet another that is just preparing the database.
func (f *file) newConn(ctx context.Context) (conn *sql.Conn, err error) {
	err = f.retry(ctx, func() error {
		conn, err = f.db.Conn(ctx)
		return err
	})
	return conn, err
}

func (f *file) prepare(ctx context.Context) error {
	conn, err := f.newConn(ctx)
	if err != nil {
		return err
	}
	f.anchor = conn
	return f.retry(ctx, func() error { return f.dialect.Prepare(ctx, conn) })
}

// query runs queries as one of a few readers.
func (f *file) query(ctx context.Context, _ Lane, queries ...Statement) error {
	select {
	case f.reading <- struct{}{}:
		defer func() { <-f.reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := f.dialect.Intact(); err != nil {
		return err
	}
	for _, q := range queries {
		rows, err := f.db.QueryContext(ctx, q.Text, q.Args...)
		if err != nil {
			return err
		}
		if err := each(rows, q.Row); err != nil {
			return err
		}
	}
	return nil
}

// each hands rows over and closes them.
func each(rows *sql.Rows, take func(Row) error) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := take(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// setUp calls f within a transaction that writes.
func (f *file) setUp(ctx context.Context, do func(run Run) error) error {
	w, err := f.acquireWriter(ctx)
	if err != nil {
		return err
	}
	defer f.releaseWriter(w)
	return w.transaction(ctx, func(ctx context.Context) error {
		return do(func(_ context.Context, statements ...Statement) error { return w.run(ctx, statements...) })
	})
}

func (f *file) write(ctx context.Context, statements ...Statement) error {
	return f.setUp(ctx, func(run Run) error { return run(ctx, statements...) })
}

// acquireWriter waits for the writer.
func (f *file) acquireWriter(ctx context.Context) (*writer, error) {
	select {
	case w := <-f.writer:
		return w, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *file) releaseWriter(w *writer) { f.writer <- w }

// cas writes changes in one transaction with what else waits for the writer: who gets it writes for others, too. So
// calls that come together cost one COMMIT, and one wait for other processes.
func (f *file) cas(ctx context.Context, changes []driver.Change, _ int) ([]dbstore.Result, error) {
	mine := &write{ctx: ctx, changes: changes, done: make(chan struct{})}
	f.writes.add(mine)
	given := ctx.Done()
	for {
		select {
		case w := <-f.writer:
			w.writeTogether(f.writes.take())
			f.releaseWriter(w)
		case <-given:
			if f.writes.remove(mine) {
				return nil, ctx.Err()
			}
			given = nil // it is being written
		case <-mine.done:
			if mine.err != nil {
				return nil, mine.err
			}
			return mine.results, nil
		}
	}
}

// confirm has nothing to do: what a transaction finds was committed.
func (*file) confirm(context.Context, []driver.Change) error { return nil }

func (f *file) close(context.Context) error {
	w := <-f.writer
	w.drop()
	if f.anchor != nil {
		_ = f.anchor.Close() // it goes back to the pool, which is closed
	}
	return f.db.Close()
}

// cas reads, judges and writes. No one else writes between. Where the change is notable, it is noted if it is to be;
// an error of that is a noteError.
func (w *writer) cas(ctx context.Context, c driver.Change, how noting) (dbstore.Result, error) {
	st := w.file.sql.kinds[c.Doc.Kind]
	var old *driver.Doc
	if err := w.run(ctx, w.file.get(c.Doc.Kind, c.Doc.ID, &old)); err != nil {
		return dbstore.Result{}, err
	}
	var malformed error
	if old != nil {
		if malformed = driver.CheckFound(*old); malformed != nil {
			old = nil
		}
	}
	if _, holds := driver.Judge(c, old); !holds {
		return dbstore.Result{Found: old, Malformed: malformed}, nil
	}
	var err error
	d := &c.Doc
	switch c.Op {
	case driver.Delete:
		d = nil
		err = w.exec(ctx, st.remove, c.Doc.ID)
	case driver.Increment:
		raised := dbstore.Incremented(c.Doc, old, w.file.now())
		d = &raised
		err = w.exec(ctx, st.put, w.file.row(*d)...)
	case driver.Put:
		err = w.exec(ctx, st.put, w.file.row(*d)...)
	}
	if err == nil && how != silent && driver.Notable(old, d) {
		if how == marked {
			err = w.exec(ctx, w.file.sql.log.mark)
		} else {
			err = w.note(ctx, c.Doc, d)
		}
		if err != nil {
			err = noteError{err}
		}
	}
	return dbstore.Result{Written: true, Malformed: malformed}, err
}

// noteError is why a change could not be noted.
type noteError struct{ error }

// Unwrap is for errors.As.
func (e noteError) Unwrap() error { return e.error }

// note writes a line of the log, in the transaction of the change that it notes.
func (w *writer) note(ctx context.Context, named driver.Doc, d *driver.Doc) error {
	group, next := named.Group, ""
	if d != nil {
		group, next = d.Group, d.Next
	}
	st, err := w.prepare(ctx, w.file.sql.log.add)
	if err != nil {
		return err
	}
	res, err := st.ExecContext(ctx, string(named.Kind), named.ID, group, next)
	if err != nil {
		return err
	}
	seq, err := res.LastInsertId()
	if err != nil {
		return err
	}
	if seq%(logKept/10) != 0 {
		return nil
	}
	return w.exec(ctx, w.file.sql.log.drop, seq-logKept)
}

// intactEvery is after how many looks a watch makes sure that its file is still the one that others open.
const intactEvery = 25

// versionPoller is the [Signal] of a [File]: a connection that looks whether another one has written.
type versionPoller struct {
	file    *file
	tick    *time.Ticker
	conn    *sql.Conn
	asks    *sql.Stmt // FileTexts.Changed on conn: prepared, since an idle watch does little else
	version int64     // what it said last
	count   int
}

func (f *file) signal(ctx context.Context, every time.Duration) (Signal, error) {
	l := &versionPoller{file: f}
	if err := f.retry(ctx, func() error { return l.connect(ctx) }); err != nil {
		return nil, err
	}
	l.tick = time.NewTicker(every)
	return l, nil
}

// Wait implements [Signal].
func (l *versionPoller) Wait(ctx context.Context) error {
	for {
		select {
		case <-l.tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		changed, err := l.look(ctx)
		switch {
		case changed:
			return nil
		case err == nil, l.file.core.dialect.Busy(err):
		case errors.Is(Sentinel(l.file.dialect, err), driver.ErrInvalid):
			return err
		default:
			l.disconnect()
		}
	}
}

// Close implements [Signal].
func (l *versionPoller) Close() {
	l.tick.Stop()
	l.disconnect()
}

// look says whether another connection has written since the last look, as far as that is known.
func (l *versionPoller) look(ctx context.Context) (bool, error) {
	if l.count%intactEvery == 0 {
		if err := l.file.dialect.Intact(); err != nil {
			return false, err
		}
	}
	l.count++
	if l.conn == nil {
		err := l.connect(ctx)
		return err == nil, err
	}
	before := l.version
	err := l.ask(ctx)
	return err == nil && l.version != before, err
}

func (l *versionPoller) connect(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	conn, err := l.file.db.Conn(ctx)
	if err != nil {
		return err
	}
	l.conn = conn
	l.asks, err = conn.PrepareContext(ctx, l.file.texts.Changed)
	if err == nil {
		err = l.ask(ctx)
	}
	if err != nil {
		l.disconnect()
	}
	return err
}

// ask takes a number that changes when another connection has written. It is brief, so it is not worth the goroutine
// that would watch over a context.
func (l *versionPoller) ask(ctx context.Context) error {
	return l.asks.QueryRowContext(context.WithoutCancel(ctx)).Scan(&l.version)
}

func (l *versionPoller) disconnect() {
	if l.asks != nil {
		_ = l.asks.Close()
		l.asks = nil
	}
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}
