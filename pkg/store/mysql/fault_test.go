package mysql_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mysql"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

const patience = 30 * time.Second

// calls are those of clients that meet faults.
var calls = storetest.Faults{Call: 2 * time.Second, Patience: patience}

// A server is killed, stands still, and its network breaks, also within transactions, which leaves them done or not.
func TestFaults(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB, "log-bin=binlog", "server-id=1")
	uri := server.Database()
	link := server.Link()
	f := calls
	f.Open = func(t *testing.T) driver.Store {
		t.Helper()
		return storetest.Open(t, driver.Config{URI: server.Via(link, uri), Timeout: time.Second})
	}
	cuts := atomic.Int64{}
	f.Run(t,
		storetest.Fault{Name: "killed", Begin: server.Kill, End: server.Start, Silent: true},
		storetest.Fault{Name: "killed and started", Begin: func() { server.Kill(); server.Start() }},
		storetest.Fault{Name: "frozen", Begin: server.Freeze, End: server.Thaw, Silent: true},
		storetest.Fault{Name: "blocked network", Begin: link.Block, End: link.Unblock, Silent: true},
		storetest.Fault{Name: "cut within transactions", End: func() { link.Look(nil) }, Begin: func() {
			link.Look(func(sent []byte) {
				if bytes.Contains(sent, []byte("COMMIT")) && cuts.Add(1) <= 20 {
					link.Cut()
				}
			})
		}},
	)
	if cuts.Load() == 0 {
		t.Error("no transaction was cut")
	}
}

// A primary that becomes read-only is unavailable to writes and reads, and no refusal. When it takes writes again, the
// store goes on.
func TestReadOnly(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB)
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	if out := one(t, t.Context(), s, put("g/a", 0, 1)); out.Status != driver.Applied {
		t.Fatalf("got %+v", out)
	}
	exec(t, server, "SET GLOBAL read_only = 1")
	for range 5 { // each of its connections
		out := one(t, t.Context(), s, put("g/a", 1, 2))
		if out.Status != driver.Unknown || !strings.Contains(out.Err.Error(), "the server is read-only") {
			t.Fatalf("write: %+v", out)
		}
		if _, err := s.Read(t.Context(), driver.KindLock, "g/a"); err == nil ||
			!strings.Contains(err.Error(), "the server is read-only") {
			t.Fatalf("read: %v", err)
		}
	}
	refused(t, uri, driver.ErrUnavailable, "the server is read-only", "name the primary")
	exec(t, server, "SET GLOBAL read_only = 0")
	calls.Until(t, s, put("g/a", 1, 2))
}

// A primary that was made read-only while it answered a read may not know what another one acknowledged by then. Its
// answer does not count.
func TestReadOnlyMeanwhile(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB)
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	if out := one(t, t.Context(), s, put("g/a", 0, 1)); out.Status != driver.Applied {
		t.Fatalf("got %+v", out)
	}
	// A read waits for a lock that this test holds.
	exec(t, server, fmt.Sprintf("RENAME TABLE %[1]s.default_locks TO %[1]s.held; CREATE VIEW %[1]s.default_locks AS "+
		"SELECT * FROM %[1]s.held WHERE GET_LOCK('held', 60)", databaseOf(uri)))
	holder, err := root(t, server).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close() }()
	if _, err := holder.ExecContext(t.Context(), "DO GET_LOCK('held', 0)"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.Read(t.Context(), driver.KindLock, "g/a")
		ended <- err
	}()
	db := root(t, server)
	waitFor(t, "read that waits", func() bool {
		var n int
		err := db.QueryRowContext(t.Context(),
			"SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock'").Scan(&n)
		return err == nil && n > 0
	})
	exec(t, server, "SET GLOBAL read_only = 1")
	if _, err := holder.ExecContext(t.Context(), "DO RELEASE_LOCK('held')"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the server is read-only") {
		t.Errorf("%v, want it to say that the server is read-only", err)
	}
}

// Locks of others, killed connections and too many of them pass.
func TestObstacles(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB)
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	if out := one(t, t.Context(), s, put("g/a", 0, 1)); out.Status != driver.Applied {
		t.Fatalf("got %+v", out)
	}
	db, err := mysql.DB(t.Context(), testservers.MariaDBRoot(server, databaseOf(uri)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "UPDATE default_locks SET next = 'x' WHERE id = 'g/a'"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if out := one(t, ctx, s, put("g/a", 1, 2)); out.Status != driver.Unknown {
		t.Errorf("a row that another has locked: %+v", out)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		exec(t, server, "KILL USER "+databaseOf(uri))
		calls.Until(t, s, put("g/a", int64(i+1), int64(i+2)))
	}
}

// A batch that met a lock for too long is sent again, and nothing of the first attempt is left: or its Delete would
// find the document gone.
func TestLockWait(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	server := testservers.Start(t, testservers.KindMariaDB)
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	for i, id := range []string{"g/a", "g/b"} {
		if out := one(t, t.Context(), s, put(id, 0, int64(i))); out.Status != driver.Applied {
			t.Fatalf("got %+v", out)
		}
	}
	db := root(t, server)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	table := databaseOf(uri) + ".default_locks"
	if _, err := tx.ExecContext(t.Context(), "UPDATE "+table+" SET next = 'x' WHERE id = 'g/b'"); err != nil {
		t.Fatal(err)
	}
	answers := make(chan []driver.Outcome, 1)
	before := counter(t, db, "Com_update")
	go func() {
		remove := put("g/a", 0, 0)
		remove.Op, remove.IfRev = driver.Delete, 1
		outs, err := s.Apply(t.Context(), remove, put("g/b", 1, 3))
		if err != nil {
			t.Error(err)
		}
		answers <- outs
	}()
	waitFor(t, "second attempt", func() bool { return counter(t, db, "Com_update") >= before+2 })
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for i, out := range <-answers {
		if out.Status != driver.Applied {
			t.Errorf("change %d: %+v", i, out)
		}
	}
}

// Bodies that are longer together than one packet are written all the same, whatever bytes they and their ids hold.
func TestLargeBatch(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB, "max_allowed_packet=4M")
	s := storetest.Open(t, driver.Config{URI: server.Database()})
	hostile := "'\\\"; DROP TABLE `default_values`; -- ?\x1a\n\r%_ " // blanks at the end count
	body := bytes.Repeat([]byte{0, '\'', '\\', '"', 0x1a, '\n', 0xff, '?'}, driver.MaxBody/8)
	var changes []driver.Change
	for i := range driver.MaxBatch {
		changes = append(changes, driver.Change{Doc: driver.Doc{
			Kind: driver.KindValue, ID: fmt.Sprintf("%s%d %s", hostile, i, hostile), Group: hostile, Rev: 1, Body: body,
			WriterID: driver.WriterID{Session: hostile, Seq: int64(i)},
		}})
	}
	outs, err := s.Apply(t.Context(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	for i, out := range outs {
		if out.Status != driver.Applied {
			t.Fatalf("change %d: %+v", i, out)
		}
	}
	res, err := s.List(t.Context(), driver.KindValue, driver.Query{Group: hostile})
	if err != nil || len(res.Docs) != driver.MaxBatch {
		t.Fatalf("%d documents, %v", len(res.Docs), err)
	}
	for _, d := range res.Docs {
		if !bytes.Equal(d.Body, body) || !strings.HasSuffix(d.ID, hostile) || d.WriterID.Session != hostile {
			t.Fatalf("%q came back changed", d.ID)
		}
	}
}
