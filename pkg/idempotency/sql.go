package idempotency

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/internal/sleep"
)

// Execer is what [SQL] needs of a transaction: a *sql.Tx, or a *sql.Conn within one.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

var (
	_ Execer = (*sql.Tx)(nil)
	_ Execer = (*sql.Conn)(nil)
)

// SQL keeps records in a transaction of the caller's, in the table that [Dialect.Schema] describes. The caller commits
// it when [Guard.Do] returns no error, and rolls it back otherwise. Then the effect and the record happen together or
// not at all. The transaction is used by one call of Do at a time.
//
// A repetition that comes while another transaction is at work waits for its end; on PostgreSQL it is told instead,
// unless [Config.Wait] is set. A database may end one of two transactions with a serialization failure or a deadlock:
// run that one again, as for any other.
func SQL(tx Execer, d Dialect) Records { return sqlRecords{tx, d} }

// sqlRecords implements [Records].
type sqlRecords struct {
	tx Execer
	d  Dialect
}

func (s sqlRecords) Read(ctx context.Context, id string) (Found, error) {
	var (
		version int64
		body    []byte
		expired bool
	)
	err := s.tx.QueryRowContext(ctx, s.d.read(), id).Scan(&version, &body, &expired)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Found{}, nil
	case err != nil:
		return Found{}, fmt.Errorf("read record of request %.80q: %w", id, err)
	}
	r, err := DecodeRecord(body)
	return Found{Record: r, Version: version, Expired: expired}, err
}

func (s sqlRecords) Write(ctx context.Context, w Write) (Answer, error) {
	if w.Over == 0 {
		return s.create(ctx, w)
	}
	changed, err := s.change(ctx, w)
	if err != nil {
		return Answer{}, fmt.Errorf("write record of request %.80q: %w", w.ID, err)
	}
	if changed {
		return Answer{Applied: true, Version: w.Over + 1}, nil
	}
	found, err := s.Read(ctx, w.ID)
	return Answer{Found: found}, err
}

// create inserts a record unless there is one. Whose row it is tells the claim in it: drivers do not agree on what
// counts as an affected row.
func (s sqlRecords) create(ctx context.Context, w Write) (Answer, error) {
	free, err := s.take(ctx, w)
	if err != nil || !free {
		return Answer{Busy: err == nil}, err
	}
	body, err := w.Record.Encode()
	if err != nil {
		return Answer{}, err
	}
	if _, err := s.tx.ExecContext(ctx, s.d.insert(), w.ID, body, w.Keep.Milliseconds()); err != nil {
		return Answer{}, fmt.Errorf("insert record of request %.80q: %w", w.ID, err)
	}
	found, err := s.Read(ctx, w.ID)
	if err != nil || found.Record.Claim != w.Record.Claim {
		return Answer{Found: found}, err
	}
	return Answer{Applied: true, Version: found.Version}, nil
}

// take has others see that a transaction is at work on the request, where the database has such a lock. False: another
// one is.
func (s sqlRecords) take(ctx context.Context, w Write) (bool, error) {
	query := s.d.take(w.Tell)
	if query == "" {
		return true, nil
	}
	var free bool
	if err := s.tx.QueryRowContext(ctx, query, w.ID).Scan(&free); err != nil {
		return false, fmt.Errorf("lock request %.80q: %w", w.ID, err)
	}
	return free, nil
}

func (s sqlRecords) change(ctx context.Context, w Write) (bool, error) {
	var (
		res sql.Result
		err error
	)
	if w.Record == nil {
		res, err = s.tx.ExecContext(ctx, s.d.remove(), w.ID, w.Over)
	} else {
		var body []byte
		if body, err = w.Record.Encode(); err != nil {
			return false, err
		}
		res, err = s.tx.ExecContext(ctx, s.d.update(), body, w.Over+1, w.Keep.Milliseconds(), w.ID, w.Over)
	}
	if err != nil {
		return false, err
	}
	rows, err := res.RowsAffected()
	return rows > 0, err
}

func (s sqlRecords) Own(ctx context.Context) (context.Context, string, func(), error) {
	return ctx, "", func() {}, nil
}

// Dead is true: nobody commits a record in the state Started but a caller that did not roll back after an error.
func (s sqlRecords) Dead(context.Context, string) (bool, error) { return true, nil }

func (s sqlRecords) Within() bool { return true }

// SQLTransactions runs each request in a transaction of its own.
type SQLTransactions struct {
	DB      *sql.DB
	Dialect Dialect
	Options *sql.TxOptions // nil: the database's default
	// Retry says whether an error asks to run the transaction again: a serialization failure, a deadlock, a database
	// that is locked. It is for the driver to know. Nil: never.
	Retry func(error) bool
}

// retries is how often a transaction is run again at most, and how long it pauses before.
const (
	retries    = 50
	retryPause = 5 * time.Millisecond
)

// Transact is a [Transact]. The work gets its transaction by [TxFrom].
func (s SQLTransactions) Transact(ctx context.Context, do func(context.Context, Records) error) error {
	for try := 1; ; try++ {
		err := s.once(ctx, do)
		if err == nil || s.Retry == nil || !s.Retry(err) || try > retries {
			return err
		}
		if gone := sleep.For(ctx, retryPause*time.Duration(min(try, 20))); gone != nil {
			return errors.Join(gone, err)
		}
	}
}

func (s SQLTransactions) once(ctx context.Context, do func(context.Context, Records) error) error {
	tx, err := s.DB.BeginTx(ctx, s.Options)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := do(context.WithValue(ctx, txKey{}, tx), SQL(tx, s.Dialect)); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	return nil
}

// Clean removes up to limit records that have expired, and says how many it removed. Call it now and then.
func (s SQLTransactions) Clean(ctx context.Context, limit int) (int64, error) {
	res, err := s.DB.ExecContext(ctx, s.Dialect.clean(), limit)
	if err != nil {
		return 0, fmt.Errorf("remove expired records of requests: %w", err)
	}
	return res.RowsAffected()
}

type txKey struct{}

// TxFrom is the transaction that a context of work belongs to; nil when there is none.
func TxFrom(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(txKey{}).(*sql.Tx)
	return tx
}
