package mysql_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// A day of one replica with a lease of 15 s is 57,600 of them.
var heartbeats = flag.Int64("heartbeats", 2000, "how many heartbeats TestGarbageOfHeartbeats writes")

// Heartbeats leave no garbage that grows but the binary log, whose growth is what docs/stores/mysql.md says.
func TestGarbageOfHeartbeats(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	const sessions = 10
	// What fsync costs is not the question.
	server := testservers.Start(t, testservers.KindMariaDB, "log-bin=binlog", "server-id=1", "sync_binlog=0",
		"innodb_flush_log_at_trx_commit=0")
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	db := root(t, server)
	heartbeat := func(n int64) {
		t.Helper()
		out := one(t, t.Context(), s, storetest.Heartbeat(fmt.Sprint("session-", n%sessions), n/sessions))
		if out.Status != driver.Applied {
			t.Fatalf("heartbeat %d: %+v", n, out)
		}
	}
	size := func(file string) int64 {
		t.Helper()
		info, err := os.Stat(server.Server().Site().Path("data/" + file))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for n := range int64(sessions) {
		heartbeat(n)
	}
	table := databaseOf(uri) + "/default_sessions.ibd"
	ibd, undo, binlog := size(table), size("ibdata1"), counter(t, db, "Binlog_bytes_written")
	for n := range *heartbeats {
		heartbeat(sessions + n)
	}
	binlog = counter(t, db, "Binlog_bytes_written") - binlog
	history := int64(0)
	waitFor(t, "purge of what no transaction sees", func() bool {
		history = counter(t, db, "Innodb_history_list_length")
		return history < 100
	})
	var lines int64
	if err := db.QueryRowContext(context.WithoutCancel(t.Context()),
		"SELECT count(*) FROM "+databaseOf(uri)+".default_notifications").Scan(&lines); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d heartbeats: the table's file grew from %d to %d bytes, ibdata1 from %d to %d, history list %d, "+
		"binary log %d bytes, %d for each, log %d lines", *heartbeats, ibd, size(table), undo, size("ibdata1"), history,
		binlog, binlog / *heartbeats, lines)
	if got := size(table); got > ibd+(64<<10) {
		t.Errorf("the table's file grew from %d to %d bytes; want no growth", ibd, got)
	}
	if got := size("ibdata1"); got > undo+(64<<20) { // it grows by 64 MiB at a time
		t.Errorf("the file of undo records grew from %d to %d bytes; want no growth", undo, got)
	}
	if each := binlog / *heartbeats; each > 2048 {
		t.Errorf("the binary log has %d bytes for each heartbeat, want 2 KiB at most", each)
	}
	if lines > sessions {
		t.Errorf("the log has %d lines, want only those of the sessions' creation", lines)
	}
}
