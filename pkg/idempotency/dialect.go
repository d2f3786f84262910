package idempotency

import (
	"fmt"
	"strings"
)

// Table is the table of [SQL].
const Table = "idempotency_requests"

// Dialect is a kind of SQL. The zero value is [SQLite].
type Dialect uint8

// The dialects that [SQL] knows.
const (
	// SQLite has one writer at a time, so a repetition waits at the beginning of its transaction. Begin it as a writer
	// (BEGIN IMMEDIATE; with modernc.org/sqlite the parameter _txlock=immediate), and set a busy time-out.
	SQLite Dialect = iota
	// PostgreSQL tells a repetition that the request is in progress, or has it wait. 11 and newer.
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
func (d Dialect) take(tell bool) string {
	switch {
	case d != PostgreSQL:
		return ""
	case tell:
		return d.sql("SELECT pg_try_advisory_xact_lock(hashtextextended('{table} ' || ?, 0))")
	}
	return d.sql("SELECT true FROM (SELECT pg_advisory_xact_lock(hashtextextended('{table} ' || ?, 0))) AS taken")
}
