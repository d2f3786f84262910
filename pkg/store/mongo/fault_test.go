package mongo_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testservers"
)

// writer makes changes with writer IDs that are never used twice.
type writer struct {
	mu  sync.Mutex
	seq int64
}

func (w *writer) put(d driver.Doc, ifRev int64) driver.Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	d.Rev, d.WriterID = ifRev+1, driver.WriterID{Session: "writer", Seq: w.seq}
	return driver.Change{IfRev: ifRev, Doc: d}
}

func (w *writer) puts(n int, ifRev int64) []driver.Change {
	all := make([]driver.Change, 0, n)
	for i := range n {
		all = append(all, w.put(lock(fmt.Sprintf("g/%04d", i)), ifRev))
	}
	return all
}

func lock(id string) driver.Doc { return driver.Doc{Kind: driver.KindLock, ID: id, Group: "g"} }

// apply applies changes within limit and wants each to end in status.
func apply(t *testing.T, s driver.Store, limit time.Duration, status driver.Status, changes ...driver.Change) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	outs, err := s.Apply(ctx, changes...)
	if err != nil {
		t.Fatal(err)
	}
	for i, out := range outs {
		if out.Status != status {
			t.Fatalf("change %d of %d: status %d (%v), want %d", i, len(outs), out.Status, out.Err, status)
		}
		if status == driver.Unknown && !errors.Is(out.Err, driver.ErrUnavailable) {
			t.Fatalf("change %d: unknown with %v, want ErrUnavailable", i, out.Err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each kind of write, alone and in a batch, loses its answer in each way; in the end every one is known.
func TestLostAnswers(t *testing.T) {
	suites.NeedWhole(t, suites.Mongo, "real servers")
	rs, uri, s := faulty(t)
	commands := bson.A{"insert", "update", "delete"}
	faults := map[string]struct {
		set, end func() error
		// what becomes of the change: at first, and when it is repeated after the fault
		status, repeated driver.Status
	}{
		"answer lost once": { // the driver asks again, and the server remembers
			func() error { return rs.LoseAnswers(t.Context(), 1) },
			func() error { return rs.LoseAnswers(t.Context(), 0) },
			driver.Applied, driver.Applied,
		},
		"connection closed before": {
			func() error {
				return rs.FailCommand(t.Context(), 1, bson.M{"failCommands": commands, "closeConnection": true})
			},
			func() error { return rs.FailCommand(t.Context(), 0, nil) },
			driver.Applied, driver.Applied,
		},
		"written, no majority in time": { // settled by reading back
			func() error {
				failure := bson.M{
					"code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting for replication timed out",
				}
				return rs.FailCommand(t.Context(), 1, bson.M{"failCommands": commands, "writeConcernError": failure})
			},
			func() error { return rs.FailCommand(t.Context(), 0, nil) },
			driver.Applied, driver.Applied,
		},
		"written, then cut off": { // unknown, and recognised later by its writer ID
			func() error {
				if err := rs.LoseAnswers(t.Context(), 1); err != nil {
					return err
				}
				all := append(bson.A{"find"}, commands...)
				return rs.FailPoint(
					t.Context(), "failCommand", testmongo.After(1),
					bson.M{"failCommands": all, "closeConnection": true},
				)
			},
			func() error { return errors.Join(rs.FailCommand(t.Context(), 0, nil), rs.LoseAnswers(t.Context(), 0)) },
			driver.Unknown, driver.Applied,
		},
		"cut off before": { // unknown, and not written
			func() error {
				all := append(bson.A{"find"}, commands...)
				return rs.FailCommand(t.Context(), 1_000_000, bson.M{"failCommands": all, "closeConnection": true})
			},
			func() error { return rs.FailCommand(t.Context(), 0, nil) },
			driver.Unknown, driver.Applied,
		},
	}
	for name, f := range faults {
		for _, n := range []int{1, 30} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				var w writer
				t.Cleanup(func() {
					_, err := rawDatabase(t, uri).Collection("default.locks").
						DeleteMany(context.WithoutCancel(t.Context()), bson.M{})
					must(t, err)
				})
				limit := 20 * time.Second
				if f.status == driver.Unknown {
					limit = 700 * time.Millisecond
				}
				for rev := range int64(2) { // insert, then replace
					changes := w.puts(n, rev)
					must(t, f.set())
					apply(t, s, limit, f.status, changes...)
					must(t, f.end())
					apply(t, s, 20*time.Second, f.repeated, changes...)
					res, err := s.List(t.Context(), driver.KindLock, driver.Query{})
					must(t, err)
					for i, d := range res.Docs {
						if d.Rev != rev+1 || d.WriterID != changes[i].Doc.WriterID {
							t.Fatalf("%s is %+v, want as %+v", d.ID, d, changes[i].Doc)
						}
					}
				}
			})
		}
	}
}

// A write whose answer is lost and that somebody else has written over is distinguished from one that may yet arrive.
func TestOvertakenAfterLostAnswer(t *testing.T) {
	rs, _, s := faulty(t)
	var mine, theirs writer
	theirs.seq = 1000
	first := mine.put(lock("g/a"), 0)
	apply(t, s, patient, driver.Applied, first)

	second := mine.put(lock("g/a"), 1)
	must(t, rs.LoseAnswers(t.Context(), 1))
	must(t, rs.FailPoint(t.Context(), "failCommand", testmongo.After(1),
		bson.M{"failCommands": bson.A{"find", "update"}, "closeConnection": true}))
	apply(t, s, 700*time.Millisecond, driver.Unknown, second)
	must(t, rs.FailCommand(t.Context(), 0, nil))
	apply(t, s, patient, driver.Applied, theirs.put(lock("g/a"), 2))
	apply(t, s, patient, driver.Overtaken, second)
}

// A lost reply to a read is asked for again.
func TestReadsAreRetried(t *testing.T) {
	rs, _, s := faulty(t)
	var w writer
	apply(t, s, patient, driver.Applied, w.put(lock("g/a"), 0))
	must(t, rs.FailCommand(t.Context(), 2, bson.M{"failCommands": bson.A{"find"}, "closeConnection": true}))
	for range 2 {
		res, err := s.Read(t.Context(), driver.KindLock, "g/a")
		if err != nil || len(res.Docs) != 1 {
			t.Fatalf("%d documents, %v", len(res.Docs), err)
		}
	}
}

// While a server that hangs holds every connection for claims, heartbeats go on, and the connections are few.
func TestBulkClaimsDoNotStarveHeartbeats(t *testing.T) {
	suites.NeedWhole(t, suites.Mongo, "real servers")
	rs, uri, _ := faulty(t)
	ctx := t.Context()
	name := testservers.Name()
	s := storetest.Open(t, driver.Config{URI: uri + "&appName=" + name})
	var w writer
	session := driver.Doc{Kind: driver.KindSession, ID: "s1", State: "live", Count: 1}
	apply(t, s, patient, driver.Applied, w.put(session, 0))

	const claims = 40
	hang := bson.M{"failCommands": bson.A{"insert"}, "blockConnection": true, "blockTimeMS": 5000}
	must(t, rs.FailCommand(ctx, 1_000_000, hang))
	var wg sync.WaitGroup
	claiming, stop := context.WithCancel(ctx)
	for i := range claims {
		wg.Go(func() { _, _ = s.Apply(claiming, w.put(lock(fmt.Sprint("g/", i)), 0)) })
	}
	entered := rs.RunOnPrimary(ctx, bson.D{
		{Key: "waitForFailPoint", Value: "failCommand"},
		{Key: "timesEntered", Value: 8},
		{Key: "maxTimeMS", Value: 20_000},
	})
	must(t, entered.Err())
	for heartbeat := range int64(5) {
		session.Count++
		apply(t, s, 2*time.Second, driver.Applied, w.put(session, heartbeat+1))
	}
	const most = 14 // as docs/stores/mongodb.md has it: calls, heartbeats, and four that look after the server
	if n := connections(t, rs, name); n == 0 || n > most {
		t.Errorf("%d connections, want %d at most", n, most)
	}
	stop()
	wg.Wait()
	must(t, rs.FailCommand(ctx, 0, nil))
}

// connections is how many a client of this name has with the primary, in the server's own words.
func connections(t *testing.T, rs *testmongo.ReplicaSet, name string) int {
	t.Helper()
	var found struct {
		Cursor struct {
			First []bson.Raw `bson:"firstBatch"`
		} `bson:"cursor"`
	}
	must(t, rs.RunOnPrimary(t.Context(), bson.D{
		{Key: "aggregate", Value: 1},
		{Key: "pipeline", Value: bson.A{
			bson.M{"$currentOp": bson.M{"allUsers": true, "idleConnections": true}},
			bson.M{"$match": bson.M{"appName": name}},
		}},
		{Key: "cursor", Value: bson.M{"batchSize": 1000}},
	}).Decode(&found))
	return len(found.Cursor.First)
}

// Through elections every change gets an answer in the end, and counts once. A primary that hangs, and one without a
// majority, answer nothing.
func TestFaults(t *testing.T) {
	t.Parallel()
	rs := testmongo.New(t, testmongo.Options{Own: true})
	storetest.Open(t, driver.Config{URI: rs.URI()}) // sets up, which may take longer
	var frozen []*testmongo.Node
	freeze := func(primary, others bool) {
		t.Helper()
		lead, err := rs.Primary(t.Context())
		must(t, err)
		for _, node := range rs.Nodes() {
			if node == lead && primary || node != lead && others {
				frozen = append(frozen, node)
			}
		}
		for _, node := range frozen {
			node.Freeze()
		}
	}
	thaw := func() {
		for _, node := range frozen {
			node.Thaw()
		}
		frozen = nil
	}
	storetest.Faults{Call: 2 * time.Second, WatchEnds: true, Open: func(t *testing.T) driver.Store {
		t.Helper()
		return storetest.Open(t, driver.Config{URI: rs.URI(), Timeout: 2 * time.Second})
	}}.Run(t,
		storetest.Fault{Name: "election", Begin: func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			must(t, rs.StepDown(ctx))
		}},
		storetest.Fault{Name: "primary frozen", Begin: func() { freeze(true, false) }, End: thaw},
		storetest.Fault{Name: "no majority", Begin: func() { freeze(false, true) }, End: thaw, Silent: true},
		storetest.Fault{Name: "all frozen", Begin: func() { freeze(true, true) }, End: thaw, Silent: true},
	)
}

// Whatever ends an operation of the set-up from outside is worth another try, too. (Elections and time-outs the driver
// tries again by itself.)
func TestInterruptedDuringSetUp(t *testing.T) {
	rs, _, _ := faulty(t)
	for i, c := range []struct {
		command string
		code    int
	}{
		{"insert", 11601},
		{"find", 11601},
		{"listCollections", 11601},
		{"create", 11601},
		{"createIndexes", 11601},
		{"find", 175},
		{"create", 12587},
		{"insert", 14031},
	} {
		t.Run(fmt.Sprint(c.command, " ", c.code), func(t *testing.T) {
			o := mongo.Options{URI: rs.URI(), Database: fmt.Sprint("interrupted_", i)}
			must(t, rs.FailCommand(
				t.Context(), 4, bson.M{"failCommands": bson.A{c.command}, "errorCode": c.code, "appName": "shardctl"},
			))
			_, err := mongo.Open(t.Context(), o)
			must(t, rs.FailCommand(t.Context(), 0, nil))
			if !errors.Is(err, driver.ErrUnavailable) {
				t.Fatalf("got %v; want ErrUnavailable", err)
			}
			storetest.Open(t, o)
		})
	}
}

// An election while collections and indexes are made is worth another try, not the end of the program.
func TestElectionDuringSetUp(t *testing.T) {
	rs, _, _ := faulty(t)
	for _, command := range []string{"create", "createIndexes"} {
		t.Run(command, func(t *testing.T) {
			interrupted := bson.M{
				"code": 11602, "codeName": "InterruptedDueToReplStateChange", "errmsg": "operation was interrupted",
			}
			must(t, rs.FailCommand(
				t.Context(), 1, bson.M{"failCommands": bson.A{command}, "writeConcernError": interrupted},
			))
			o := mongo.Options{URI: rs.URI(), Database: "new_" + command}
			s, err := mongo.Open(t.Context(), o)
			if !errors.Is(err, driver.ErrUnavailable) {
				t.Fatalf("got %v, %v; want ErrUnavailable", s, err)
			}
			must(t, rs.FailCommand(t.Context(), 0, nil))
			storetest.Open(t, o)
		})
	}
}
