package fencesql

import "fmt"

// Dialect is the SQL that a database speaks.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1
	MySQL              // and MariaDB
	SQLite             // 3.35 or later; connections need a busy_timeout
)

// texts are the statements of a table.
type texts struct {
	schema string
	lock   string // makes the row of a key where there is none, and locks it until the transaction ends
	marks  string // reads its marks; empty: lock returns them
	raise  string
}

// statements are those of a dialect, with the table's name in them.
func (d Dialect) statements(table string) (texts, error) {
	switch d {
	case PostgreSQL:
		return texts{
			// "C": keys are compared byte by byte.
			schema: `CREATE TABLE IF NOT EXISTS ` + table + ` (
	fence_key TEXT COLLATE "C" PRIMARY KEY,
	exclusive_token BIGINT NOT NULL,
	shared_token BIGINT NOT NULL
)`,
			lock:  upsert(table, "$1"),
			raise: `UPDATE ` + table + ` SET exclusive_token = $1, shared_token = $2 WHERE fence_key = $3`,
		}, nil
	case SQLite:
		return texts{
			schema: `CREATE TABLE IF NOT EXISTS ` + table + ` (
	fence_key TEXT NOT NULL PRIMARY KEY,
	exclusive_token INTEGER NOT NULL,
	shared_token INTEGER NOT NULL
)`,
			lock:  upsert(table, "?"),
			raise: `UPDATE ` + table + ` SET exclusive_token = ?, shared_token = ? WHERE fence_key = ?`,
		}, nil
	case MySQL:
		return texts{
			// Bytes: collations of text leave out blanks at the end, or case. InnoDB: others have no transactions.
			schema: `CREATE TABLE IF NOT EXISTS ` + table + ` (
	fence_key VARBINARY(512) NOT NULL PRIMARY KEY,
	exclusive_token BIGINT NOT NULL,
	shared_token BIGINT NOT NULL
) ENGINE=InnoDB`,
			lock: `INSERT INTO ` + table + ` (fence_key, exclusive_token, shared_token) VALUES (?, 0, 0)
ON DUPLICATE KEY UPDATE exclusive_token = exclusive_token`,
			// FOR UPDATE: a plain read shows what was there when the transaction began.
			marks: `SELECT exclusive_token, shared_token FROM ` + table + ` WHERE fence_key = ? FOR UPDATE`,
			raise: `UPDATE ` + table + ` SET exclusive_token = ?, shared_token = ? WHERE fence_key = ?`,
		}, nil
	}
	return texts{}, fmt.Errorf("dialect %d: must be PostgreSQL, MySQL or SQLite", d)
}

// upsert writes the row also where it is there, since a read would not lock it.
func upsert(table, key string) string {
	return `INSERT INTO ` + table + ` AS f (fence_key, exclusive_token, shared_token) VALUES (` + key + `, 0, 0)
ON CONFLICT (fence_key) DO UPDATE SET exclusive_token = f.exclusive_token RETURNING exclusive_token, shared_token`
}
