//go:build linux

package browser

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/test/e2e/harness"
)

// fleet is one real replica, and the documents of 49 others: sessions with heartbeats, members, and locks. The replica
// knows no difference: it reads them, plans with them, and serves them.
type fleet struct {
	t       *testing.T
	replica *harness.Replica
	store   store.Store
	group   string

	mu      sync.Mutex
	members []*simulated
	locks   map[record.Key]record.Lock
	rev     int64 // of the newest document written
	events  int64
}

// simulated is an instance that only heartbeats.
type simulated struct {
	ids     record.WriterIDs
	name    string
	session record.Session
}

const (
	fleetSize   = 50
	fleetTasks  = 10_000
	fleetLease  = time.Minute
	counterName = "~members" // the counter that is incremented when members have changed
)

// newFleet starts the replica with its share of the tasks, and writes the others.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, group: "topics", locks: map[record.Key]record.Lock{}}
	c := newCluster(t, harness.Options{})
	config := func(server, admin string) (string, error) {
		return fmt.Sprintf(`version: 1
cluster: fleet
instance: web-01
store: {uri: %q}
lease: {duration: %v}
server: {listen: %q, advertise: %q}
admin: {listen: %q}
log: {level: debug}
groups:
  - name: topics
    cap: %d
    tasks: [{name: "topic-{00001..%05d}", exec: {command: [sleep, "100000"]}}]
`, c.StoreURI, fleetLease, server, server, admin, fleetTasks/fleetSize, fleetTasks), nil
	}
	var err error
	if f.replica, err = c.StartWith(t.Context(), "web-01", config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for line := range strings.Lines(f.replica.Log()) {
			if strings.Contains(line, "watcher was dropped") {
				t.Error(line)
			}
		}
	})
	f.waitFor("its share", func(s harness.Status) bool { return s.Group(f.group).Running == fleetTasks/fleetSize })
	path := filepath.Join(filepath.Dir(f.replica.Config), "store.db")
	if f.store, err = sqlite.Open(t.Context(), path, sqlite.Options{Cluster: "fleet", Existing: true}); err != nil {
		t.Fatal(err)
	}
	f.join()
	f.claim()
	f.heartbeats()
	f.waitFor("all tasks", func(s harness.Status) bool { return s.Group(f.group).Running == fleetTasks })
	return f
}

func (f *fleet) waitFor(what string, ok func(harness.Status) bool) {
	f.t.Helper()
	eventually(f.t, func(ctx context.Context) error {
		s, err := f.replica.Client.Status(ctx)
		if err == nil && !ok(s) {
			err = fmt.Errorf("%s: %+v", what, s.Group(f.group))
		}
		return err
	})
}

// list reads all documents of a kind, and notes the revision that later ones have to exceed.
func (f *fleet) list(kind driver.Kind) []driver.Doc {
	f.t.Helper()
	reply, err := f.store.List(f.t.Context(), kind, driver.Query{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.rev = max(f.rev, reply.Floor)
	for _, d := range reply.Docs {
		f.rev = max(f.rev, d.Rev)
	}
	return reply.Docs
}

// join writes sessions and members. They have the replica's task list, and free capacity.
func (f *fleet) join() {
	f.t.Helper()
	docs := f.list(driver.KindMember)
	if len(docs) != 1 {
		f.t.Fatalf("%d members, want the replica alone", len(docs))
	}
	member, err := record.MemberFrom(docs[0])
	if err != nil {
		f.t.Fatal(err)
	}
	f.list(driver.KindSession)
	var changes []driver.Change
	for n := 1; n < fleetSize; n++ {
		id := uuid.NewString()
		s := &simulated{name: fmt.Sprintf("web-%02d", n+1), ids: record.WriterIDs{Session: id}}
		f.rev++
		s.session = record.Session{
			ID: id, Rev: f.rev, WriterID: s.ids.Next(), Heartbeat: 1, State: record.Live, Lease: fleetLease,
			Instance: s.name, Clock: time.Now().UnixMilli(),
		}
		own := member.Clone()
		own.Session, own.Rev, own.Instance = id, f.rev, s.name
		own.Caps = map[string]int{f.group: fleetTasks / fleetSize * 5 / 4}
		own.Zone, own.Opened = "eu-"+string("abc"[n%3]), time.Now().UnixMilli()
		changes = append(
			changes, driver.Change{Op: driver.Put, Doc: s.session.Doc()},
			driver.Change{Op: driver.Put, Doc: own.Doc(s.ids.Next())},
		)
		f.members = append(f.members, s)
	}
	f.apply(changes...)
	f.increment(counterName)
}

// claim gives what the replica does not own to the others, each the same number.
func (f *fleet) claim() {
	f.t.Helper()
	owned := map[record.Key]bool{}
	for _, d := range f.list(driver.KindLock) {
		owned[record.Key(d.ID)] = true
	}
	now := time.Now().UnixMilli()
	var changes []driver.Change
	for i := range fleetTasks {
		key := record.NewKey(f.group, fmt.Sprintf("topic-%05d", i+1))
		if owned[key] {
			continue
		}
		s := f.members[len(f.locks)/(fleetTasks/fleetSize)]
		f.rev++
		lock := record.Lock{
			Key: key, Rev: f.rev, WriterID: s.ids.Next(), Session: s.session.ID, Token: f.rev, Instance: s.name,
			Reason: record.ReasonCreated, Message: "owned for the first time", Since: now,
			Status: record.TaskStatus{State: "running", Since: now, FirstSeen: now},
		}
		f.locks[key] = lock
		changes = append(changes, driver.Change{Op: driver.Put, Doc: lock.Doc()})
	}
	f.apply(changes...)
	f.increment(f.group)
}

// move gives a key to another of the simulated instances, as a claim would, and returns when that was.
func (f *fleet) move(key record.Key, to *simulated) time.Time {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list(driver.KindGroup)
	lock := f.locks[key]
	before := lock.Rev
	f.rev = max(f.rev, lock.Rev) + 1
	lock.From, lock.Instance, lock.Session = lock.Instance, to.name, to.session.ID
	lock.Rev, lock.Token, lock.WriterID = f.rev, f.rev, to.ids.Next()
	lock.Reason, lock.Message = record.ReasonBalance, lock.From+" owned 201 of 10000 tasks, its share is 200"
	at := time.Now()
	lock.Since, lock.Status.Since = at.UnixMilli(), at.UnixMilli()
	f.locks[key] = lock
	f.events++
	event := record.Event{
		ID: record.EventID(at.UnixMilli(), to.session.ID, f.events), Time: at.UnixMilli(), Type: record.EventMoved,
		Reason: lock.Reason, Key: key, From: lock.From, To: lock.Instance, Token: lock.Token, Message: lock.Message,
	}
	f.apply(
		driver.Change{Op: driver.Put, IfRev: before, Doc: lock.Doc()},
		driver.Change{Op: driver.Put, Doc: event.Doc(to.ids.Next())},
	)
	f.increment(f.group)
	f.apply(record.EventsWritten())
	if took := time.Since(at); took > 100*time.Millisecond {
		f.t.Logf("the writes took %v", took)
	}
	return at
}

// heartbeats keeps the sessions alive until the test ends.
func (f *fleet) heartbeats() {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(fleetLease / 12); ; {
			select {
			case <-done:
				return
			case <-tick.C:
				f.heartbeat()
			}
		}
	}()
	f.t.Cleanup(func() { close(done); <-ended; _ = f.store.Close(context.Background()) })
}

func (f *fleet) heartbeat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	var changes []driver.Change
	for _, s := range f.members {
		before := s.session.Rev
		s.session.Rev++
		s.session.Heartbeat++
		s.session.Clock, s.session.WriterID = time.Now().UnixMilli(), s.ids.Next()
		changes = append(changes, driver.Change{Op: driver.Put, IfRev: before, Doc: s.session.Doc()})
	}
	if err := f.write(changes...); err != nil {
		f.t.Error(err)
	}
}

func (f *fleet) increment(counter string) {
	f.t.Helper()
	f.apply(driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: counter, Rev: f.rev}})
}

func (f *fleet) apply(changes ...driver.Change) {
	f.t.Helper()
	if err := f.write(changes...); err != nil {
		f.t.Fatal(err)
	}
}

// write applies changes, all of them.
func (f *fleet) write(changes ...driver.Change) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	outs, err := f.store.Apply(ctx, changes...)
	if err != nil {
		return err
	}
	for i, out := range outs {
		if out.Status != driver.Applied {
			return fmt.Errorf("%s %s: %v %w", changes[i].Doc.Kind, changes[i].Doc.ID, out.Status, out.Err)
		}
	}
	return nil
}

// owner is the simulated instance that owns a key.
func (f *fleet) owner(key record.Key) *simulated {
	for _, s := range f.members {
		if strings.EqualFold(s.session.ID, f.locks[key].Session) {
			return s
		}
	}
	return nil
}
