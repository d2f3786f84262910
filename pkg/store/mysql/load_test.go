package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mysql"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// However much is asked of a store at once, it keeps no more connections than it says, and a heartbeat is not behind
// claims.
func TestConnections(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 3 {
		if _, err := s.Watch(ctx, driver.Interest{}); err != nil {
			t.Fatal(err)
		}
	}
	var calls sync.WaitGroup
	for client := range 20 {
		calls.Go(func() {
			for i := range 20 {
				if out := one(t, ctx, s, put(fmt.Sprintf("g/%d-%d", client, i), 0, 1)); out.Status != driver.Applied {
					t.Errorf("got %+v", out)
				}
				if _, err := s.Read(ctx, driver.KindLock, "g/1"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
	if n := processes(t, server, databaseOf(uri), `TRUE`); n < 1 || n > mysql.MaxConnections {
		t.Errorf("%d connections, want 1 to %d", n, mysql.MaxConnections)
	}
}

// counter is a counter of the server's.
func counter(tb testing.TB, db *sql.DB, name string) (n int64) {
	tb.Helper()
	var ignored string
	if err := db.QueryRowContext(tb.Context(), `SHOW GLOBAL STATUS LIKE '`+name+`'`).Scan(&ignored, &n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// BenchmarkHeartbeat writes one session again and again, as a replica does, and reports what each write leaves behind.
func BenchmarkHeartbeat(b *testing.B) {
	server := testservers.Start(b, testservers.KindMariaDB, "log-bin=binlog", "server-id=1")
	uri := server.Database()
	s, err := mysql.Open(b.Context(), uri, mysql.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close(context.WithoutCancel(b.Context())) }()
	db, err := mysql.DB(b.Context(), testservers.MariaDBRoot(server, databaseOf(uri)))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	body := []byte(`{"zone":"a","started":1795429431470,"host":"worker-1"}`)
	before := counter(b, db, "Binlog_bytes_written")
	rev := int64(0)
	for b.Loop() {
		outs, err := s.Apply(b.Context(), driver.Change{IfRev: rev, Doc: driver.Doc{
			Kind: driver.KindSession, ID: "5f0c6a52-7d0f-4a5e-9a55-1f2b6f1d7a10", Rev: rev + 1, State: driver.StateLive,
			WriterID: driver.WriterID{Session: "5f0c6a52-7d0f-4a5e-9a55-1f2b6f1d7a10", Seq: rev + 1}, Count: rev,
			Body: body,
		}})
		if err != nil || outs[0].Status != driver.Applied {
			b.Fatalf("got %+v, %v", outs, err)
		}
		rev++
	}
	b.ReportMetric(float64(counter(b, db, "Binlog_bytes_written")-before)/float64(b.N), "binlog-bytes/op")
}

// BenchmarkBatch creates and deletes as many locks as one call sends at once.
func BenchmarkBatch(b *testing.B) {
	server := testservers.Start(b, testservers.KindMariaDB)
	s, err := mysql.Open(b.Context(), server.Database(), mysql.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close(context.WithoutCancel(b.Context())) }()
	for b.Loop() {
		changes := make([]driver.Change, driver.MaxBatch)
		for _, op := range []driver.Op{driver.Put, driver.Delete} {
			for i := range changes {
				changes[i] = put(fmt.Sprintf("g/%03d", i), 0, int64(b.N*1000+i))
				if op == driver.Delete {
					changes[i].Op, changes[i].IfRev = op, 1
				}
			}
			outs, err := s.Apply(b.Context(), changes...)
			if err != nil {
				b.Fatal(err)
			}
			for _, out := range outs {
				if out.Status != driver.Applied {
					b.Fatalf("got %+v", out)
				}
			}
		}
	}
}

// BenchmarkIdleWatch reports what a watch costs for a second without events: how often it asks, and how much of
// a processor the server takes for it.
func BenchmarkIdleWatch(b *testing.B) {
	server := testservers.Start(b, testservers.KindMariaDB)
	uri := server.Database()
	s, err := mysql.Open(b.Context(), uri, mysql.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close(context.WithoutCancel(b.Context())) }()
	db, err := mysql.DB(b.Context(), testservers.MariaDBRoot(server, databaseOf(uri)))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for range 10 {
		if _, err := s.Watch(b.Context(), driver.Interest{}); err != nil {
			b.Fatal(err)
		}
	}
	asked, busy := counter(b, db, "Com_select"), cpu(b, server.Server().PID())
	for b.Loop() {
		time.Sleep(time.Second)
	}
	watches := 10 * float64(b.N)
	b.ReportMetric(float64(counter(b, db, "Com_select")-asked)/watches, "selects/watch-s")
	b.ReportMetric(float64((cpu(b, server.Server().PID())-busy).Milliseconds())/watches, "server-ms/watch-s")
}
