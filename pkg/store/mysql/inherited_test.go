package mysql_test

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// A setting of the server that was wrong for a moment is not kept by the sessions that began meanwhile.
func TestInherited(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB, "log-bin=binlog", "server-id=1")
	uri := server.Database()
	storetest.Inherited{
		Open: func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{URI: uri, Timeout: time.Second})
		},
		Spoil: func() {
			exec(t, server, "SET GLOBAL binlog_format = 'STATEMENT'")
			exec(t, server, "KILL USER "+databaseOf(uri))
		},
		Mend: func() { exec(t, server, "SET GLOBAL binlog_format = 'MIXED'") },
	}.Run(t)
}
