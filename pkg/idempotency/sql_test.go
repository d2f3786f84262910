package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencytest"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite" // brings the driver of SQLite
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// requests is how many requests are sent.
func requests() int {
	if flag.Lookup("idempotency.whole").Value.String() == "true" {
		return 10_000
	}
	return 300
}

// database is a database of one of the dialects.
type database struct {
	uri     string
	dialect idempotency.Dialect
	db      *sql.DB
}

// openDatabase opens a URI: the path of a file, postgres://, or mysql://.
func openDatabase(uri string) (database, error) {
	d := database{uri: uri}
	var err error
	switch {
	case strings.HasPrefix(uri, "postgres://"):
		d.dialect = idempotency.PostgreSQL
		d.db, err = sql.Open("pgx", uri)
	case strings.HasPrefix(uri, "mysql://"):
		d.dialect = idempotency.MySQL
		d.db, err = sql.Open("mysql", dsn(uri))
	default:
		d.db, err = sql.Open("sqlite",
			"file:"+uri+"?_txlock=immediate&_pragma=busy_timeout(3000)&_pragma=journal_mode(WAL)")
	}
	if err == nil {
		d.db.SetMaxOpenConns(8)
	}
	return d, err
}

// dsn is mysql://USER:PASSWORD@HOST/DATABASE in the driver's form.
func dsn(uri string) string {
	user, rest, _ := strings.Cut(strings.TrimPrefix(uri, "mysql://"), "@")
	host, name, _ := strings.Cut(rest, "/")
	name, _, _ = strings.Cut(name, "?")
	return user + "@tcp(" + host + ")/" + name
}

// retry says which errors ask to run a transaction again.
func retry(err error) bool {
	var postgres interface{ SQLState() string }
	if errors.As(err, &postgres) {
		return postgres.SQLState() == "40001" || postgres.SQLState() == "40P01"
	}
	// a deadlock, a lock that took too long, a row that changed since the snapshot
	if maria, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return maria.Number == 1213 || maria.Number == 1205 || maria.Number == 1020
	}
	return err != nil && strings.Contains(err.Error(), "SQLITE_BUSY")
}

func (d database) config(cfg idempotency.Config) idempotency.Config {
	cfg.Transact = idempotency.SQLTransactions{DB: d.db, Dialect: d.dialect, Retry: retry}.Transact
	return cfg
}

func (d database) exec(tb testing.TB, statements ...string) {
	tb.Helper()
	for _, s := range statements {
		if _, err := d.db.ExecContext(tb.Context(), s); err != nil {
			tb.Fatalf("%s: %v", s, err)
		}
	}
}

// fresh is an empty database with the table.
func fresh(tb testing.TB, dialect idempotency.Dialect) database {
	tb.Helper()
	var uri string
	switch dialect {
	case idempotency.PostgreSQL:
		uri = testservers.Shared(tb, testservers.KindPostgres).Database()
	case idempotency.MySQL:
		uri = testservers.Shared(tb, testservers.KindMariaDB).Database()
	default:
		uri = filepath.Join(tb.TempDir(), "work.db")
	}
	d, err := openDatabase(uri)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = d.db.Close() })
	d.exec(tb, dialect.Schema()...)
	return d
}

var dialects = map[string]idempotency.Dialect{
	"SQLite": idempotency.SQLite, "PostgreSQL": idempotency.PostgreSQL, "MariaDB": idempotency.MySQL,
}

func TestSQL(t *testing.T) {
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			idempotencytest.Run(t, idempotencytest.Backend{
				Transactional: true, NoWait: dialect == idempotency.PostgreSQL,
				Open: func(tb testing.TB) func(idempotency.Config) idempotency.Config {
					tb.Helper()
					return fresh(tb, dialect).config
				},
			})
		})
	}
}

// In the hour that comes twice when summer time ends, the clock of the database is right all the same.
func TestTheTimeZoneOfASessionDoesNotMatter(t *testing.T) {
	d := fresh(t, idempotency.MySQL)
	server := testservers.Shared(t, testservers.KindMariaDB).Server()
	tx, err := d.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for zone, change := range map[string]time.Duration{"before": 30 * time.Minute, "after": -30 * time.Minute} {
		err := testservers.MariaDBExec(t.Context(), server, fmt.Sprintf(`USE mysql;
			INSERT INTO time_zone (Use_leap_seconds) VALUES ('N');
			SET @zone = LAST_INSERT_ID();
			INSERT INTO time_zone_name (Name, Time_zone_id) VALUES ('test/%[1]s', @zone);
			INSERT INTO time_zone_transition_type VALUES (@zone, 0, 3600, 1, 'S'), (@zone, 1, 0, 0, 'W');
			INSERT INTO time_zone_transition VALUES (@zone, 1, 0), (@zone, %[2]d, 1)`, zone, time.Now().Add(change).Unix()))
		if err != nil {
			t.Fatal(err)
		}
		guard, err := idempotency.New(idempotency.Config{
			Records: idempotency.SQL(tx, idempotency.MySQL),
			Keep:    time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), "SET time_zone = 'test/"+zone+"'"); err != nil {
			t.Fatal(err)
		}
		nothing := func(context.Context) (idempotency.Reply, error) { return idempotency.Reply{}, nil }
		if _, err := guard.Do(t.Context(), idempotency.Request{ID: zone}, nothing); err != nil {
			t.Fatal(err)
		}
		var version, expires int64
		query := "SELECT version, expires FROM " + idempotency.Table + " WHERE id = ?"
		if err := tx.QueryRowContext(t.Context(), query, zone).Scan(&version, &expires); err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]time.Duration{
			"version": time.Until(time.UnixMilli(version)), "expires": time.Until(time.UnixMilli(expires)) - time.Hour,
		} {
			if got.Abs() > 10*time.Minute {
				t.Errorf("half an hour %s the change: the time of %s is off by %s", zone, name, got)
			}
		}
	}
}

// openClient is one process of TestProcessesThatAreKilled.
func openClient(_ context.Context, uri string) (idempotencytest.Client, error) {
	d, err := openDatabase(uri)
	if err != nil {
		return idempotencytest.Client{}, err
	}
	guard, err := idempotency.New(d.config(idempotency.Config{}))
	insert := "INSERT INTO effects (request, reply) VALUES (?, ?)"
	if d.dialect == idempotency.PostgreSQL {
		insert = "INSERT INTO effects (request, reply) VALUES ($1, $2)"
	}
	return idempotencytest.Client{
		Guard: guard, Again: retry,
		Effect: func(ctx context.Context, id, reply string) error {
			_, err := idempotency.TxFrom(ctx).ExecContext(ctx, insert, id, reply)
			return err
		},
	}, err
}

// Each request is sent five times at once by ten processes, some of which are killed half way: each effect happens
// exactly once, and everybody gets its reply.
func TestProcessesThatAreKilled(t *testing.T) {
	suites.Need(t, suites.Processes, "many real processes")
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			d := fresh(t, dialect)
			d.exec(t, "CREATE TABLE effects (request VARCHAR(100) NOT NULL, reply VARCHAR(100) NOT NULL)")
			said, killed := idempotencytest.Processes(t, d.uri, requests())
			if killed == 0 {
				t.Error("no process was killed half way")
			}
			idempotencytest.Once(t, requests(), said, d.effects(t))
		})
	}
}

func (d database) effects(t *testing.T) map[string][]string {
	t.Helper()
	rows, err := d.db.QueryContext(t.Context(), "SELECT request, reply FROM effects")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	all := make(map[string][]string)
	for rows.Next() {
		var id, reply string
		if err := rows.Scan(&id, &reply); err != nil {
			t.Fatal(err)
		}
		all[id] = append(all[id], reply)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
