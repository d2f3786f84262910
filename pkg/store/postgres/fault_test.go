package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

// brief is how long a call may take that meets a fault.
const brief = 700 * time.Millisecond

// openBrief opens a store whose timeouts are those of a short lease.
func openBrief(t *testing.T, uri string) driver.Store {
	t.Helper()
	return openWithin(t, uri, time.Second)
}

// openWithin opens a store with a timeout for its calls. That may be too short for a connection on a busy machine,
// which is then tried again.
func openWithin(t *testing.T, uri string, timeout time.Duration) driver.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	open := func() (driver.Store, error) { return postgres.Open(ctx, postgres.Options{URI: uri, Timeout: timeout}) }
	s, err := open()
	for errors.Is(err, driver.ErrUnavailable) && ctx.Err() == nil {
		s, err = open()
	}
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Logf("close: %v", err) // of a server that is gone
		}
	})
	return s
}

// increment is one write that counts.
func increment(id string) driver.Change {
	return driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: id}}
}

// calls are those of clients that meet faults.
var calls = storetest.Faults{Call: brief, Patience: patience}

// A server is killed, stands still, and its network breaks or swallows. A client has few connections meanwhile, and not
// more afterwards.
func TestFaults(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres)
	uri := server.Database()
	var links []*testservers.Proxy
	f := calls
	f.Open = func(t *testing.T) driver.Store {
		t.Helper()
		links = append(links, server.Link())
		return openBrief(t, server.Via(links[len(links)-1], uri))
	}
	all := func(do func(*testservers.Proxy)) func() {
		return func() {
			for _, link := range links {
				do(link)
			}
		}
	}
	most, sampled := atomic.Int64{}, sync.WaitGroup{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.Run(t,
		storetest.Fault{Name: "killed", Begin: server.Kill, End: server.Start, Silent: true},
		storetest.Fault{Name: "killed and started", Begin: func() { server.Kill(); server.Start() }},
		storetest.Fault{Name: "frozen", Silent: true, End: func() { cancel(); server.Thaw() }, Begin: func() {
			server.Freeze()
			sampled.Go(func() {
				for ctx.Err() == nil {
					most.Store(max(most.Load(), int64(links[0].Clients())))
					time.Sleep(time.Millisecond)
				}
			})
		}},
		storetest.Fault{Name: "cut", Begin: all((*testservers.Proxy).Cut)},
		storetest.Fault{
			Name: "blocked network", Begin: all((*testservers.Proxy).Block), End: all((*testservers.Proxy).Unblock),
			Silent: true,
		},
		storetest.Fault{Name: "cut again", Begin: all((*testservers.Proxy).Cut)},
	)
	sampled.Wait()
	if n := most.Load(); n > postgres.MaxCalls+2 {
		t.Errorf("%d connections at once, want %d: for calls, one that listens, one that asks", n, postgres.MaxCalls+2)
	}
	wantFew(t, uri, len(links))
}

// count reads a counter.
func count(t *testing.T, s driver.Store, id string) int64 {
	t.Helper()
	reply, err := s.Read(t.Context(), driver.KindGroup, id)
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.Docs) == 0 {
		return 0
	}
	return reply.Docs[0].Count
}

// wantFew waits until clients have no more connections than they may.
func wantFew(t *testing.T, uri string, clients int) {
	t.Helper()
	n, most := int64(0), int64(clients*(postgres.MaxCalls+1))
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		var err error
		n, err = postgres.Value(t.Context(), uri,
			`SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shardctl' AND datname = current_database()`)
		if err != nil {
			t.Fatal(err)
		}
		if n <= most {
			return
		}
	}
	t.Errorf("%d connections, want %d at most", n, most)
}

// largeBatch replaces documents; together they are longer than what a network passes on at once.
func largeBatch(round int64) []driver.Change {
	changes := make([]driver.Change, driver.MaxBatch)
	for i := range changes {
		changes[i] = driver.Change{IfRev: round, Doc: driver.Doc{
			Kind: driver.KindValue, ID: fmt.Sprintf("g/%03d", i), Rev: round + 1, Body: bytes.Repeat([]byte("x"), 2000),
			WriterID: driver.WriterID{Session: "large", Seq: round},
		}}
	}
	return changes
}

// A server that got one half of a batch has locked the rows of that half. Who waits for one of them does not hold
// others for as long: those who want only these go on.
func TestHalfBatch(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	uri := server.Database()
	link := server.Link()
	hung, waits, free := openBrief(t, server.Via(link, uri)), openBrief(t, uri), openBrief(t, uri)
	const rounds = 3 // until the connections have prepared what is sent
	for round := range int64(rounds) {
		ends(t, hung, patience, driver.Applied, largeBatch(round)...)
	}
	var half sync.Once
	link.Look(func(sent []byte) {
		if len(sent) > 16<<10 {
			half.Do(link.Block)
		}
	})
	ends(t, hung, brief, driver.Unknown, largeBatch(rounds)...)
	replace := largeBatch(rounds)[0]
	replace.Doc.WriterID.Session = "other"
	var other sync.WaitGroup
	other.Go(func() { ends(t, waits, 2*patience, driver.Applied, increment("both"), replace) })
	await(t, uri, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
	ends(t, free, patience, driver.Applied, increment("both"))
	link.Close() // the client of the half is lost
	other.Wait()
}

// ends applies changes that all end in one way.
func ends(t *testing.T, s driver.Store, within time.Duration, want driver.Status, changes ...driver.Change) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	outs, err := s.Apply(ctx, changes...)
	if err != nil {
		t.Error(err)
	}
	for i, out := range outs {
		if out.Status != want {
			t.Errorf("change %d of %d: %+v, want status %d", i, len(outs), out, want)
			return
		}
	}
}
