package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mysql"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestStore(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return conformance(t, server)
	})
}

// With a binary log the account has no right to make triggers, and locks are taken in another order.
func TestStoreWithBinaryLog(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB, "log-bin=binlog", "server-id=1")
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return conformance(t, server)
	}, "create", "batch", "racing writers", "racing creators", "watch", "interests", "set-up at once")
}

// Nothing hangs on the server's defaults: connections set what they need.
func TestStoreUnderOtherDefaults(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	server := testservers.Start(t, testservers.KindMariaDB, "transaction-isolation=SERIALIZABLE", "autocommit=0",
		"sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,PIPES_AS_CONCAT", "completion-type=CHAIN",
		"character-set-server=latin1", "default-time-zone=+05:30", "lower-case-table-names=1",
		"max-recursive-iterations=1")
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return conformance(t, server)
	}, "create", "body", "ids", "now", "batch", "racing writers", "query", "watch")
	uri := server.Database()
	for range 2 { // the second finds what the first has made
		if err := storetest.Open(t, driver.Config{URI: uri, Cluster: "Blue"}).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Open(t, driver.Config{URI: uri, Cluster: "Blue", Existing: true})
	db, err := mysql.DB(t.Context(), server.Database())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var isolation string
	if err := db.QueryRowContext(t.Context(), "SELECT @@tx_isolation").Scan(&isolation); err != nil ||
		isolation != "READ-COMMITTED" {
		t.Errorf("isolation %s, %v", isolation, err)
	}
}

func conformance(t *testing.T, server *testservers.Server) storetest.Database {
	t.Helper()
	uri := server.Database()
	database := databaseOf(uri)
	return storetest.Database{
		Quiet: true, Neighbour: storetest.Neighbour(uri),
		Open: func(ctx context.Context) (driver.Store, error) {
			s, err := mysql.Open(ctx, uri, mysql.Options{})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		ShiftSchema: func(ctx context.Context, by int) error {
			return testservers.MariaDBExec(ctx, server.Server(),
				fmt.Sprintf("UPDATE `%s`.default_schema SET version = version + %d", database, by))
		},
		Forget: func(ctx context.Context, kind driver.Kind) error {
			return testservers.MariaDBExec(ctx, server.Server(),
				fmt.Sprintf("DROP TABLE `%[1]s`.default_steps, `%[1]s`.default_%[2]s", database, kind.Info().Plural))
		},
		Spoil: func(ctx context.Context, kind driver.Kind, id string) error {
			return testservers.MariaDBExec(ctx, server.Server(),
				fmt.Sprintf("UPDATE `%s`.default_%s SET rev = 0 WHERE id = '%s'", database, kind.Info().Plural, id))
		},
		Examined: func(ctx context.Context, kind driver.Kind, q driver.Query) (int64, error) {
			return examined(ctx, uri, kind, q)
		},
	}
}

// examined is how many rows and entries of indexes the server's counters say that a List has read. No one else uses the
// server then.
func examined(ctx context.Context, uri string, kind driver.Kind, q driver.Query) (int64, error) {
	s, err := mysql.Open(ctx, uri, mysql.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close(ctx) }()
	db, err := mysql.DB(ctx, uri)
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	before, err := reads(ctx, db)
	if err != nil {
		return 0, err
	}
	if _, err := s.List(ctx, kind, q); err != nil {
		return 0, err
	}
	after, err := reads(ctx, db)
	return after - before, err
}

// reads is how often the server has read a row or an entry of an index, those of temporary tables left out.
func reads(ctx context.Context, db *sql.DB) (sum int64, err error) {
	rows, err := db.QueryContext(ctx, `SHOW GLOBAL STATUS LIKE 'Handler_read%'`)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		var n int64
		if err := rows.Scan(&name, &n); err != nil {
			return 0, err
		}
		if !strings.Contains(name, "rnd") {
			sum += n
		}
	}
	return sum, rows.Err()
}
