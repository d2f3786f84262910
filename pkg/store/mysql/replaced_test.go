package mysql_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// names are the values of the one column of a query about a database.
func names(t *testing.T, server *testservers.Server, database, query string) (all []string) {
	t.Helper()
	rows, err := root(t, server).QueryContext(t.Context(), query, database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// tables are those of a database.
func tables(t *testing.T, server *testservers.Server, database string) []string {
	t.Helper()
	return names(t, server, database, "SELECT table_name FROM information_schema.tables WHERE table_schema = ?")
}

// Another database under the name of the store, and the store itself dropped and set up anew, are refused.
func TestReplaced(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	open := func(uri string) func(*testing.T) driver.Store {
		return func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{URI: uri, Timeout: time.Second})
		}
	}
	t.Run("swapped", func(t *testing.T) {
		uri, other := server.Database(), server.Database()
		if err := storetest.Open(t, driver.Config{URI: other}).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, b := databaseOf(uri), databaseOf(other)
		storetest.Replaced{Open: open(uri), Swap: func() {
			var renames []string
			for _, table := range tables(t, server, a) {
				renames = append(renames, fmt.Sprintf("`%[1]s`.`%[3]s` TO `%[2]s`.`swap_%[3]s`, "+
					"`%[2]s`.`%[3]s` TO `%[1]s`.`%[3]s`, `%[2]s`.`swap_%[3]s` TO `%[2]s`.`%[3]s`", a, b, table))
			}
			exec(t, server, "RENAME TABLE "+strings.Join(renames, ", "))
			exec(t, server, "KILL USER "+a)
		}}.Run(t)
	})
	t.Run("dropped", func(t *testing.T) {
		uri := server.Database()
		storetest.Replaced{Open: open(uri), Drop: func() {
			for _, table := range tables(t, server, databaseOf(uri)) {
				exec(t, server, fmt.Sprintf("DROP TABLE `%s`.`%s`", databaseOf(uri), table))
			}
		}}.Run(t)
	})
}
