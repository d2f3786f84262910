package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mysql"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// pair is a primary with a replica that acknowledges each write, and an address that leads to one of them.
type pair struct {
	t                *testing.T
	primary, replica *testservers.Server
	link             *testprocess.Proxy
	uri              string // through the link
}

// waitForReplica has a primary acknowledge nothing that its replica has not.
const waitForReplica = "SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'; " +
	"SET GLOBAL rpl_semi_sync_master_timeout = 3600000; SET GLOBAL rpl_semi_sync_master_enabled = 1"

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{
		t:       t,
		primary: testservers.Start(t, testservers.KindMariaDB, "log-bin=binlog", "server-id=1"),
		replica: testservers.Start(t, testservers.KindMariaDB, "log-bin=binlog", "server-id=2", "log-slave-updates",
			"rpl_semi_sync_slave_enabled=1", "read_only=1"),
	}
	host, port, _ := strings.Cut(p.primary.Addr, ":")
	exec(t, p.primary, "CREATE USER replica@'%' IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE ON *.* TO replica@'%'")
	exec(t, p.replica, fmt.Sprintf("CHANGE MASTER TO master_host='%s', master_port=%s, master_user='replica', "+
		"master_password='secret', master_use_gtid=slave_pos, master_connect_retry=1; START SLAVE", host, port))
	exec(t, p.primary, waitForReplica)
	db := root(t, p.primary)
	waitFor(t, "a replica that acknowledges",
		func() bool { return counter(t, db, "Rpl_semi_sync_master_clients") == 1 })
	p.link = p.primary.Link()
	p.uri = p.primary.Via(p.link, p.primary.Database())
	return p
}

// root is connections with all rights.
func root(t *testing.T, s *testservers.Server) *sql.DB {
	t.Helper()
	db, err := mysql.DB(t.Context(), testservers.MariaDBRoot(s, "mysql"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for late := time.After(patience); !holds(); {
		select {
		case <-late:
			t.Fatalf("no %s within %v", what, patience)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// promote makes the replica the primary once it has applied what it acknowledged, and has the address lead to it. What
// is open stays open.
func (p *pair) promote() {
	p.t.Helper()
	exec(p.t, p.replica, "STOP SLAVE IO_THREAD")
	db := root(p.t, p.replica)
	waitFor(p.t, "replica that has applied everything", func() bool {
		return strings.HasPrefix(slaveState(p.t, db), "Slave has read all relay log")
	})
	exec(p.t, p.replica, "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0")
	p.link.Lead(p.replica.Addr)
}

// slaveState is what the replica's SQL thread does.
func slaveState(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SHOW SLAVE STATUS")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil || !rows.Next() {
		t.Fatal("no state of the replica", err, rows.Err())
	}
	values, into := make([]sql.RawBytes, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if name == "Slave_SQL_Running_State" {
			return string(values[i])
		}
	}
	t.Fatal("the state of the replica has no Slave_SQL_Running_State")
	return ""
}

// A primary dies, or stands still and comes back, while clients write. What was acknowledged is on the replica that
// takes its place, and the old primary acknowledges nothing more.
func TestFailOver(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	for name, fail := range map[string]func(*testservers.Server){
		"killed": func(s *testservers.Server) { s.Kill() },
		"frozen": func(s *testservers.Server) { s.Freeze() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			s := storetest.Open(t, driver.Config{URI: p.uri, Timeout: time.Second})
			if got := store.Problems(s); len(got) > 0 {
				t.Errorf("problems: %+v", got)
			}
			w := calls.Write(t, s)
			w.GoOn(t)
			fail(p.primary)
			exhaust(t, s)
			p.promote()
			w.GoOn(t)
			w.Check(t, s)
			if name == "frozen" {
				p.primary.Thaw()
				p.wantNoAcknowledgement()
			}
		})
	}
}

// A server without a counter of its replicas shows them to a user with the right PROCESS, and to no other.
func TestReplicasAreSeenByTheirThreads(t *testing.T) {
	p := newPair(t)
	if n, known, err := mysql.Replicas(t.Context(), testservers.MariaDBRoot(p.primary, "mysql")); n != 1 || !known {
		t.Errorf("with all rights: %d, known %t, %v; want 1", n, known, err)
	}
	if n, known, err := mysql.Replicas(t.Context(), p.uri); n != 0 || known || err != nil {
		t.Errorf("without PROCESS: %d, known %t, %v; want it not known", n, known, err)
	}
}

// exhaust calls a store whose server is away, more often at once than it may have connections.
func exhaust(t *testing.T, s driver.Store) {
	t.Helper()
	for range 2 {
		var calls sync.WaitGroup
		for range 2 * mysql.MaxConnections {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := s.Read(ctx, driver.KindLock, "g/0"); err == nil {
					t.Error("a server that is away was read")
				}
			})
		}
		calls.Wait()
	}
}

// A primary that crashes while it waits for its replica shows, when it is up again, what the replica does not have. Who
// sends that again learns that it is applied when the replica has it, and not before.
func TestFoundAfterCrash(t *testing.T) {
	p := newPair(t)
	s := storetest.Open(t, driver.Config{URI: p.uri, Timeout: time.Second})
	calls.Until(t, s, put("g/a", 0, 1))
	p.replica.Freeze()
	change := put("g/a", 1, 2)
	change.Doc.Session = "s" // a claim, of which the log has no line
	unknown := func(when string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if out := one(t, ctx, s, change); out.Status != driver.Unknown {
			t.Fatalf("%s: %+v, want unknown", when, out)
		}
	}
	unknown("without a replica")
	p.primary.Kill()
	p.primary.Start()
	exec(t, p.primary, waitForReplica)
	waitFor(t, "write that the replica does not have", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		res, err := s.Read(ctx, driver.KindLock, "g/a")
		return err == nil && len(res.Docs) == 1 && res.Docs[0].Rev == 2
	})
	for range 3 {
		unknown("the replica does not have it")
	}
	p.replica.Thaw()
	calls.Until(t, s, change)
}

// wantNoAcknowledgement writes to the primary that was replaced and does not know of it.
func (p *pair) wantNoAcknowledgement() {
	p.t.Helper()
	old := storetest.Open(p.t, driver.Config{URI: strings.Replace(p.uri, p.link.Addr, p.primary.Addr, 1), Existing: true})
	ctx, cancel := context.WithTimeout(p.t.Context(), 3*time.Second)
	defer cancel()
	if out := one(p.t, ctx, old, put("g/late", 0, 1)); out.Status != driver.Unknown {
		p.t.Errorf("a primary that was replaced: %+v", out)
	}
}
