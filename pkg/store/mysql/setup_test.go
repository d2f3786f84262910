package mysql_test

import (
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mysql"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// A table that a newer program adds comes with its indexes. A set-up that ends half way, here for want of a right that
// only indexes made later need, would leave one that is never completed: it is there.
func TestTablesComeWithTheirIndexes(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	if err := storetest.Open(t, driver.Config{URI: uri}).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	database := databaseOf(uri)
	exec(t, server, fmt.Sprintf("DROP TABLE `%[1]s`.`default_steps`, `%[1]s`.`default_mutexes`", database))
	exec(t, server, fmt.Sprintf("REVOKE INDEX ON `%s`.* FROM `%s`@`%%`", database, database))
	if s, err := mysql.Open(t.Context(), uri, mysql.Options{}); err == nil {
		_ = s.Close(t.Context())
	} else {
		t.Error(err)
	}
	db, err := mysql.DB(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var indexes int
	if err := db.QueryRowContext(t.Context(), "SELECT count(DISTINCT index_name) FROM information_schema.statistics "+
		"WHERE table_schema = ? AND table_name = 'default_mutexes' AND index_name <> 'PRIMARY'", database).
		Scan(&indexes); err != nil || indexes == 0 {
		t.Errorf("%d indexes, %v", indexes, err)
	}
}

// A table that an older program made gets the indexes that a newer one adds, whether that program recorded its steps or
// not.
func TestOldTablesGetNewIndexes(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	for _, older := range []string{"DROP TABLE `%s`.default_steps", "DELETE FROM `%s`.default_steps WHERE step > 3"} {
		uri := server.Database()
		if err := storetest.Open(t, driver.Config{URI: uri}).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		exec(t, server, fmt.Sprintf(older, databaseOf(uri)))
		exec(t, server, fmt.Sprintf("DROP INDEX `default_locks_3` ON `%s`.`default_locks`", databaseOf(uri)))
		storetest.Open(t, driver.Config{URI: uri})
		db, err := mysql.DB(t.Context(), uri)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		var columns string
		if err := db.QueryRowContext(t.Context(), "SELECT group_concat(column_name ORDER BY seq_in_index) FROM "+
			"information_schema.statistics WHERE table_schema = ? AND index_name = 'default_locks_3'", databaseOf(uri)).
			Scan(&columns); err != nil || columns != "grp,id" {
			t.Errorf("%s: an index on %q, %v; want grp,id", older, columns, err)
		}
	}
}
