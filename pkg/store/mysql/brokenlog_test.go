package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// A log of notifications that takes no lines fails no change.
func TestBrokenLog(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	const drop = "DROP TABLE `default_notifications`"
	const grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON `default_notifications` TO "
	for name, fault := range map[string]struct{ breaks, told string }{
		"dropped": {breaks: drop},
		"a column without a default": {
			breaks: "ALTER TABLE default_notifications ADD tenant VARCHAR(9) NOT NULL", told: drop,
		},
		"numbers at their end": {
			breaks: "INSERT INTO default_notifications VALUES (9223372036854775807, '', '', '', '')", told: drop,
		},
		"numbers begin again":    {breaks: "TRUNCATE default_notifications"},
		"dropped with its steps": {breaks: drop + "; DROP TABLE default_steps"},
		"no rights": {
			// Rights on a database cannot be taken back for one table.
			breaks: "REVOKE ALL ON DATABASE.* FROM DATABASE; GRANT CREATE, INDEX ON DATABASE.* TO DATABASE; " +
				"SET @grants = (SELECT group_concat(concat('GRANT SELECT, INSERT, UPDATE, DELETE ON DATABASE.', " +
				"table_name, ' TO DATABASE') SEPARATOR ';') FROM information_schema.tables WHERE " +
				"table_schema = 'DATABASE' AND table_name <> 'default_notifications'); " +
				"EXECUTE IMMEDIATE concat('BEGIN NOT ATOMIC ', @grants, '; END')",
			told: grant,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uri := server.Database()
			database := databaseOf(uri)
			run := func(text string) {
				exec(t, server, "USE "+database+"; "+strings.ReplaceAll(text, "DATABASE", database))
			}
			storetest.BrokenLog{
				Config: driver.Config{URI: uri}, Break: func() { run(fault.breaks) }, Told: fault.told,
				Mend: func() {
					if fault.told == grant {
						run(grant + "DATABASE")
					} else {
						run(fault.told)
					}
				},
			}.Run(t)
		})
	}
}

// Indexes that somebody has dropped are made again, and a table of documents is not.
func TestPieces(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	database, worker := databaseOf(uri), strings.ToLower(testservers.Name())
	exec(t, server, fmt.Sprintf("CREATE USER %[2]s@'%%' IDENTIFIED BY 'secret'; "+
		"GRANT SELECT, INSERT, UPDATE, DELETE ON %[1]s.* TO %[2]s@'%%'", database, worker))
	storetest.Pieces{
		Config: driver.Config{URI: uri}, Told: "CREATE INDEX `default_locks_3`",
		Denied: &driver.Config{URI: strings.Replace(uri, database+":", worker+":", 1)},
		Layout: func(t *testing.T) []string {
			t.Helper()
			return names(t, server, database, "SELECT concat(index_name, ' ', seq_in_index, ' ', column_name) FROM "+
				"information_schema.statistics WHERE table_schema = ? AND index_name <> 'PRIMARY' ORDER BY 1")
		},
		Drop: func(t *testing.T) {
			t.Helper()
			for _, text := range names(t, server, database, "SELECT DISTINCT concat('DROP INDEX `', index_name, '` ON ', "+
				"table_schema, '.', table_name) FROM information_schema.statistics WHERE table_schema = ? AND "+
				"index_name <> 'PRIMARY'") {
				exec(t, server, text)
			}
		},
		DropTable: func(t *testing.T, kind driver.Kind) {
			t.Helper()
			exec(t, server, "DROP TABLE "+database+".default_"+kind.Info().Plural)
		},
	}.Run(t)
}
