package sqlstore

import (
	"context"
	"database/sql"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// readers is how many calls of one store read a file at once; more wait.
const readers = 4

// file is the [database] of a [File].
type file struct {
	*core
	db      *sql.DB
	dialect File
	texts   FileTexts

	writer  chan *writer  // holds the one writer while it is free
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
	defer func() { _ = conn.Close() }()
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
	w, err := f.lend(ctx)
	if err != nil {
		return err
	}
	defer f.takeBack(w)
	return w.transaction(ctx, func(ctx context.Context) error {
		return do(func(_ context.Context, statements ...Statement) error { return w.run(ctx, statements...) })
	})
}

// lend waits for the writer.
func (f *file) lend(ctx context.Context) (*writer, error) {
	select {
	case w := <-f.writer:
		return w, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *file) takeBack(w *writer) { f.writer <- w }

// cas is one transaction, in which each change is read, judged and written.
func (f *file) cas(ctx context.Context, changes []store.Change, _ int) ([]engine.Result, error) {
	w, err := f.lend(ctx)
	if err != nil {
		return nil, err
	}
	defer f.takeBack(w)
	results := make([]engine.Result, len(changes))
	err = w.transaction(ctx, func(ctx context.Context) error {
		for i, c := range changes {
			var err error
			if results[i], err = w.cas(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// confirm has nothing to do: what a transaction finds was committed.
func (*file) confirm(context.Context, []store.Change) error { return nil }

func (f *file) close(context.Context) error {
	w := <-f.writer
	w.drop()
	return f.db.Close()
}
