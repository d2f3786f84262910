package idempotency

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
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
// A repetition that comes while another transaction is at work waits for its end; on PostgreSQL it is refused at once,
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

// create inserts a record unless there is one. The claim in a row says whose it is: drivers do not agree on what
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
	query := s.d.take(w.NoWait)
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

func (s sqlRecords) BindSession(ctx context.Context) (context.Context, string, func(), error) {
	return ctx, "", func() {}, nil
}

// Dead is true: no one commits a record in the state Started but a caller that did not roll back after an error.
func (s sqlRecords) Dead(context.Context, string) (bool, error) { return true, nil }

func (s sqlRecords) Transactional() bool { return true }

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
		if gone := clock.Sleep(ctx, retryPause*time.Duration(min(try, 20))); gone != nil {
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

// Table is the table of [SQL].
const Table = "idempotency_requests"

// Dialect is a kind of SQL. The zero value is [SQLite].
type Dialect uint8

// The dialects that [SQL] knows.
const (
	// SQLite has one writer at a time, so a repetition waits at the beginning of its transaction. Begin it as a writer
	// (BEGIN IMMEDIATE; with modernc.org/sqlite the parameter _txlock=immediate), and set a busy time-out.
	SQLite Dialect = iota
	// PostgreSQL answers a repetition that the request is in progress, or has it wait. 11 and newer.
	PostgreSQL
	// MySQL is MySQL and MariaDB. A repetition waits, for innodb_lock_wait_timeout at most.
	MySQL
)

// Schema is the statements that make the table and its index. Times are in Unix ms, by the clock of the database.
func (d Dialect) Schema() []string {
	text, blob := "TEXT", "BLOB"
	switch d {
	case PostgreSQL:
		blob = "BYTEA"
	case MySQL:
		// Bytes: a collation might take two IDs for one.
		return []string{"CREATE TABLE IF NOT EXISTS " + Table + ` (
  id      VARBINARY(512) NOT NULL PRIMARY KEY,
  version BIGINT         NOT NULL,
  record  MEDIUMBLOB     NOT NULL,
  expires BIGINT         NOT NULL,
  KEY ` + Table + `_expires (expires)
) ENGINE=InnoDB`}
	default:
	}
	return []string{
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
  id      %-6s NOT NULL PRIMARY KEY,
  version BIGINT NOT NULL,
  record  %-6s NOT NULL,
  expires BIGINT NOT NULL
)`, Table, text, blob),
		fmt.Sprintf("CREATE INDEX IF NOT EXISTS %[1]s_expires ON %[1]s (expires)", Table),
	}
}

// now is the database's clock in Unix ms, whatever the session's time zone is. It goes on within a transaction.
func (d Dialect) now() string {
	switch d {
	case PostgreSQL:
		return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
	case MySQL:
		// UNIX_TIMESTAMP of a local time is wrong in the hour that comes twice when summer time ends.
		return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000"
	default:
		return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
	}
}

// sql puts in the clock and the dialect's placeholders.
func (d Dialect) sql(query string) string {
	query = strings.NewReplacer("{table}", Table, "{now}", d.now()).Replace(query)
	if d != PostgreSQL {
		return query
	}
	var b strings.Builder
	for i, part := range strings.Split(query, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(part)
	}
	return b.String()
}

// read sees what is committed, and not only the transaction's snapshot: the record that an insert met may be newer.
func (d Dialect) read() string {
	query := "SELECT version, record, expires <= {now} FROM {table} WHERE id = ?"
	if d != SQLite {
		query += " FOR UPDATE"
	}
	return d.sql(query)
}

func (d Dialect) insert() string {
	unless := "ON CONFLICT (id) DO NOTHING"
	if d == MySQL {
		// It locks the row as a writer does. INSERT IGNORE would lock it as readers do, and two that wait for a third
		// which rolls back would then wait for each other.
		unless = "ON DUPLICATE KEY UPDATE version = version"
	}
	// The clock as the version: it is larger than that of a record that was removed.
	return d.sql("INSERT INTO {table} (id, version, record, expires) VALUES (?, {now}, ?, {now} + ?) " + unless)
}

func (d Dialect) update() string {
	return d.sql("UPDATE {table} SET record = ?, version = ?, expires = {now} + ? WHERE id = ? AND version = ?")
}

func (d Dialect) remove() string { return d.sql("DELETE FROM {table} WHERE id = ? AND version = ?") }

func (d Dialect) clean() string {
	if d == MySQL {
		return d.sql("DELETE FROM {table} WHERE expires <= {now} LIMIT ?")
	}
	return d.sql("DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE expires <= {now} LIMIT ?)")
}

// take is a query that locks a request until the end of the transaction, and says whether it could; empty where there
// is no such lock.
func (d Dialect) take(noWait bool) string {
	switch {
	case d != PostgreSQL:
		return ""
	case noWait:
		return d.sql("SELECT pg_try_advisory_xact_lock(hashtextextended('{table} ' || ?, 0))")
	}
	return d.sql("SELECT true FROM (SELECT pg_advisory_xact_lock(hashtextextended('{table} ' || ?, 0))) AS taken")
}
