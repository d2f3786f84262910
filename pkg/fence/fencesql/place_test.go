package fencesql_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"

	_ "github.com/go-sql-driver/mysql" // the driver called mysql
	_ "github.com/jackc/pgx/v5/stdlib" // the driver called pgx
	_ "modernc.org/sqlite"             // the driver called sqlite

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencesql"
	"github.com/shardctl/shardctl/test/stale"
)

// database is one with a table of marks, and tables of work.
type database struct {
	db     *sql.DB
	fences *fencesql.Table
	param  func(text string) string // makes ? what the dialect takes
}

// open opens postgres://…, mysql://… or sqlite:PATH.
func open(ctx context.Context, target string) (*database, error) {
	driver, dsn, dialect := "pgx", target, fencesql.PostgreSQL
	d := &database{param: func(text string) string { return text }}
	scheme, rest, _ := strings.Cut(target, ":")
	switch scheme {
	case "sqlite":
		driver, dialect = "sqlite", fencesql.SQLite
		dsn = "file:" + rest + "?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)"
	case "mysql":
		u, err := url.Parse(target)
		if err != nil {
			return nil, err
		}
		driver, dialect = "mysql", fencesql.MySQL
		dsn = fmt.Sprintf("%s@tcp(%s)%s", u.User, u.Host, u.Path)
	default:
		d.param = numbered
	}
	var err error
	if d.fences, err = fencesql.New(dialect, "fences"); err != nil {
		return nil, err
	}
	if d.db, err = sql.Open(driver, dsn); err != nil {
		return nil, err
	}
	d.db.SetMaxOpenConns(16)
	if err := d.fences.Create(ctx, d.db); err != nil {
		return nil, err
	}
	for _, table := range []string{
		"CREATE TABLE IF NOT EXISTS reports (id INTEGER PRIMARY KEY, text VARCHAR(100) NOT NULL)",
		"CREATE TABLE IF NOT EXISTS log (place INTEGER PRIMARY KEY, log_key VARCHAR(2048) NOT NULL, " +
			"entry VARCHAR(100) NOT NULL)",
	} {
		if _, err := d.db.ExecContext(ctx, table); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// numbered makes each ? the $1, $2 of PostgreSQL.
func numbered(text string) string {
	for i := 1; strings.Contains(text, "?"); i++ {
		text = strings.Replace(text, "?", fmt.Sprint("$", i), 1)
	}
	return text
}

// fenced does one statement under a claim, as users write it.
func (d *database) fenced(ctx context.Context, c fence.Claim, statement string, args ...any) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := d.fences.Check(ctx, tx, c); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, d.param(statement), args...); err != nil {
		return err
	}
	return tx.Commit()
}

// Write implements [stale.Place].
func (d *database) Write(ctx context.Context, c fence.Claim, text string) error {
	if err := d.fenced(ctx, c, "DELETE FROM reports"); err != nil {
		return err
	}
	return d.fenced(ctx, c, "INSERT INTO reports (id, text) VALUES (1, ?)", text)
}

// Bare implements [stale.Place].
func (d *database) Bare(ctx context.Context, text string) error {
	_, err := d.db.ExecContext(ctx, d.param("UPDATE reports SET text = ?"), text)
	return err
}

// Read implements [stale.Place].
func (d *database) Read(ctx context.Context) (text string, err error) {
	return text, d.db.QueryRowContext(ctx, "SELECT text FROM reports").Scan(&text)
}

var kinds = stale.Kinds{"sql": func(ctx context.Context, target string) (stale.Place, error) {
	d, err := open(ctx, target)
	if err != nil {
		return nil, err
	}
	return d, nil
}}
