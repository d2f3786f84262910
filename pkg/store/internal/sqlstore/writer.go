package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
)

// writer is the one connection that a store writes a file on, with its prepared statements. Who took it from
// file.writer has it alone.
type writer struct {
	file       *file
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

var errCommit = errors.New("commit")

// transaction runs f between the dialect's BEGIN and COMMIT, and waits for other writers as long as ctx lasts. Once it
// has begun it is brief and not interrupted, since an interrupted COMMIT would only make more unknown outcomes. So f
// gets a context that does not end. With an error nothing was written, unless it is errCommit: then the outcome is
// unknown.
func (w *writer) transaction(ctx context.Context, f func(context.Context) error) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	lasting := context.WithoutCancel(ctx)
	if err := w.file.retry(ctx, func() error { return w.exec(lasting, w.file.texts.Begin) }); err != nil {
		w.dropUnlessBusy(err)
		return err
	}
	err := ctx.Err()
	if err == nil {
		err = f(lasting)
	}
	if err == nil {
		err = w.file.dialect.Intact()
	}
	if err == nil {
		if err = w.exec(lasting, `COMMIT`); err == nil {
			if err = w.file.dialect.Intact(); err == nil {
				return nil
			}
		}
		err = fmt.Errorf("%w: %w", errCommit, err)
	}
	// Databases roll back by themselves after some errors. A connection in doubt is not used again.
	if rollback := w.exec(lasting, `ROLLBACK`); rollback != nil {
		w.drop()
	}
	return err
}

func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.file.newConn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	w.conn, w.statements = conn, map[string]*sql.Stmt{}
	return nil
}

func (w *writer) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if st := w.statements[text]; st != nil {
		return st, nil
	}
	st, err := w.conn.PrepareContext(ctx, text) // closed by drop
	if err != nil {
		return nil, err
	}
	w.statements[text] = st
	return st, nil
}

func (w *writer) exec(ctx context.Context, text string, args ...any) error {
	st, err := w.prepare(ctx, text)
	if err != nil {
		return err
	}
	_, err = st.ExecContext(ctx, args...)
	return err
}

// dropUnlessBusy keeps the connection when the only trouble was that others were writing.
func (w *writer) dropUnlessBusy(err error) {
	if !w.file.dialect.Busy(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		w.drop()
	}
}

// drop closes the connection for good. The next transaction makes a new one.
func (w *writer) drop() {
	if w.conn == nil {
		return
	}
	for _, st := range w.statements {
		_ = st.Close()
	}
	// The pool must not get it back: it may be within a transaction.
	_ = w.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = w.conn.Close()
	w.conn, w.statements = nil, nil
}

// run runs statements one by one.
func (w *writer) run(ctx context.Context, statements ...Statement) error {
	for _, s := range statements {
		if s.Row == nil {
			if err := w.exec(ctx, s.Text, s.Args...); err != nil {
				return err
			}
			continue
		}
		st, err := w.prepare(ctx, s.Text)
		if err != nil {
			return err
		}
		rows, err := st.QueryContext(ctx, s.Args...)
		if err != nil {
			return err
		}
		if err := each(rows, s.Row); err != nil {
			return err
		}
	}
	return nil
}
