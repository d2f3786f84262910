package mysql_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/mysql"
	"github.com/shardctl/shardctl/test/testservers"
)

const patience = 30 * time.Second

// eventually applies a change until its outcome is known: the same one each time.
func eventually(t *testing.T, s store.Store, c store.Change) store.Outcome {
	t.Helper()
	end, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		ctx, cancel := context.WithTimeout(end, 2*time.Second)
		out := one(t, ctx, s, c)
		cancel()
		if out.Status != store.Unknown {
			return out
		}
		if end.Err() != nil {
			t.Fatalf("of unknown outcome for %v: %v", patience, out.Err)
		}
	}
}

// What was acknowledged survives kill -9, and writing goes on afterwards.
func TestKilled(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB, "log-bin=binlog", "server-id=1")
	s := open(t, server.Database(), mysql.Options{})
	const n = 200
	written := 0
	for ; written < n; written++ {
		if written == n/2 {
			server.Kill()
			if out := one(t, t.Context(), s, put("g/down", 0, n)); out.Status != store.Unknown {
				t.Fatalf("without a server: %+v", out)
			}
			server.Start()
		}
		if out := eventually(t, s,
			put(fmt.Sprintf("g/%03d", written), 0, int64(written+1))); out.Status != store.Applied {
			t.Fatalf("change %d: %+v", written, out)
		}
	}
	server.Kill()
	server.Start()
	res, err := s.List(t.Context(), store.KindLock, store.Query{To: "g/d"})
	if err != nil || len(res.Docs) != n {
		t.Fatalf("%d documents, %v; want %d", len(res.Docs), err, n)
	}
}

// A server that answers nothing holds a call up no longer than its context, and the watch and the calls go on with it.
func TestFrozen(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB)
	s := open(t, server.Database(), mysql.Options{Timeout: time.Second})
	notes, err := s.Watch(t.Context(), store.Interest{Keys: []string{"g/a"}})
	if err != nil {
		t.Fatal(err)
	}
	server.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if out := one(t, ctx, s, put("g/a", 0, 1)); out.Status != store.Unknown {
		t.Errorf("frozen: %+v", out)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the call took %v", took)
	}
	server.Thaw()
	if out := eventually(t, s, put("g/a", 0, 1)); out.Status != store.Applied {
		t.Fatalf("thawed: %+v", out)
	}
	freed := put("g/a", 1, 2)
	if out := eventually(t, s, freed); out.Status != store.Applied {
		t.Fatalf("thawed: %+v", out)
	}
	for late := time.After(patience); ; {
		select {
		case n, open := <-notes:
			if !open {
				t.Fatal("the watch has ended")
			}
			if n.ID == "g/a" {
				return
			}
		case <-late:
			t.Fatal("no notification")
		}
	}
}

// Connections that break within a transaction leave it done or not, never in between, and the same change sent again
// shows which.
func TestCut(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB)
	uri := server.Database()
	link := server.Link()
	s := open(t, server.Via(link, uri), mysql.Options{})
	cuts := 0
	link.Look(func(sent []byte) {
		if cuts < 20 && bytes.Contains(sent, []byte("COMMIT")) {
			cuts++
			link.Cut()
		}
	})
	const n = 40
	for i := range n {
		if out := eventually(t, s, put(fmt.Sprintf("g/%03d", i), 0, int64(i+1))); out.Status != store.Applied {
			t.Fatalf("change %d: %+v", i, out)
		}
	}
	link.Look(nil)
	res, err := s.List(t.Context(), store.KindLock, store.Query{})
	if err != nil || len(res.Docs) != n || cuts == 0 {
		t.Fatalf("%d documents after %d cuts, %v; want %d", len(res.Docs), cuts, err, n)
	}
}

// A primary that becomes read-only is unavailable to writes and reads, and no refusal. When it takes writes again, the
// store goes on.
func TestReadOnly(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB)
	uri := server.Database()
	s := open(t, uri, mysql.Options{})
	if out := one(t, t.Context(), s, put("g/a", 0, 1)); out.Status != store.Applied {
		t.Fatalf("got %+v", out)
	}
	exec(t, server, "SET GLOBAL read_only = 1")
	for range 5 { // each of its connections
		out := one(t, t.Context(), s, put("g/a", 1, 2))
		if out.Status != store.Unknown || !strings.Contains(out.Err.Error(), "the server is read-only") {
			t.Fatalf("write: %+v", out)
		}
		if _, err := s.Read(t.Context(), store.KindLock, "g/a"); err == nil ||
			!strings.Contains(err.Error(), "the server is read-only") {
			t.Fatalf("read: %v", err)
		}
	}
	wantRefused(t, uri, mysql.Options{}, store.ErrUnavailable, "the server is read-only", "name the primary")
	exec(t, server, "SET GLOBAL read_only = 0")
	if out := eventually(t, s, put("g/a", 1, 2)); out.Status != store.Applied {
		t.Fatalf("got %+v", out)
	}
}

// A primary that was made read-only while it answered a read may not know what another one acknowledged by then. Its
// answer does not count.
func TestReadOnlyMeanwhile(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB)
	uri := server.Database()
	s := open(t, uri, mysql.Options{})
	if out := one(t, t.Context(), s, put("g/a", 0, 1)); out.Status != store.Applied {
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
		_, err := s.Read(t.Context(), store.KindLock, "g/a")
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
	s := open(t, uri, mysql.Options{})
	if out := one(t, t.Context(), s, put("g/a", 0, 1)); out.Status != store.Applied {
		t.Fatalf("got %+v", out)
	}
	db, err := mysql.DB(testservers.MariaDBRoot(server, databaseOf(uri)))
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
	if out := one(t, ctx, s, put("g/a", 1, 2)); out.Status != store.Unknown {
		t.Errorf("a row that another has locked: %+v", out)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		exec(t, server, "KILL USER "+databaseOf(uri))
		if out := eventually(t, s, put("g/a", int64(i+1), int64(i+2))); out.Status != store.Applied {
			t.Fatalf("after its connections were killed: %+v", out)
		}
	}
}

// A batch that met a lock for too long is sent again, and nothing of the first attempt is left: or its Delete would
// find the document gone.
func TestLockWait(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB)
	uri := server.Database()
	s := open(t, uri, mysql.Options{})
	for i, id := range []string{"g/a", "g/b"} {
		if out := one(t, t.Context(), s, put(id, 0, int64(i))); out.Status != store.Applied {
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
	answers := make(chan []store.Outcome, 1)
	before := counter(t, db, "Com_update")
	go func() {
		remove := put("g/a", 0, 0)
		remove.Op, remove.IfRev = store.Delete, 1
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
		if out.Status != store.Applied {
			t.Errorf("change %d: %+v", i, out)
		}
	}
}

// Bodies that are longer together than one packet are written all the same, whatever bytes they and their ids hold.
func TestLargeBatch(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB, "max_allowed_packet=4M")
	s := open(t, server.Database(), mysql.Options{})
	hostile := "'\\\"; DROP TABLE `default_values`; -- ?\x1a\n\r%_ " // blanks at the end count
	body := bytes.Repeat([]byte{0, '\'', '\\', '"', 0x1a, '\n', 0xff, '?'}, store.MaxBody/8)
	var changes []store.Change
	for i := range store.MaxBatch {
		changes = append(changes, store.Change{Doc: store.Doc{
			Kind: store.KindValue, ID: fmt.Sprintf("%s%d %s", hostile, i, hostile), Group: hostile, Rev: 1, Body: body,
			WriterID: store.WriterID{Session: hostile, Seq: int64(i)},
		}})
	}
	outs, err := s.Apply(t.Context(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	for i, out := range outs {
		if out.Status != store.Applied {
			t.Fatalf("change %d: %+v", i, out)
		}
	}
	res, err := s.List(t.Context(), store.KindValue, store.Query{Group: hostile})
	if err != nil || len(res.Docs) != store.MaxBatch {
		t.Fatalf("%d documents, %v", len(res.Docs), err)
	}
	for _, d := range res.Docs {
		if !bytes.Equal(d.Body, body) || !strings.HasSuffix(d.ID, hostile) || d.WriterID.Session != hostile {
			t.Fatalf("%q came back changed", d.ID)
		}
	}
}
