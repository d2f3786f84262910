package view

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/test/viewtest"
)

// TestOfflineSaysWhatIsWrong holds that a store alone shows how old heartbeats are, and what is wrong.
func TestOfflineSaysWhatIsWrong(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	db, s := memory.New(memory.WithClock(func() time.Time { return now })), viewtest.Settings(t)
	id := driver.WriterID{Session: "S", Seq: 1}
	for instance, ago := range map[string]time.Duration{
		"a": 2 * time.Second, "b": 40 * time.Second, "new": -time.Second,
	} {
		member := elect.Member{
			Session: instance, Instance: instance, Caps: map[string]int{"g": 1},
			ListHashes: map[string]string{"g": s.Groups[0].Hash, "free": s.Groups[1].Hash},
		}
		viewtest.Put(t, db, member.Doc(id), record.Session{
			ID: instance, Rev: 2, WriterID: id, State: record.Live, Instance: instance,
			Clock: now.Add(-ago).UnixMilli(),
		}.Doc())
	}
	lock := viewtest.Lock("g/t1", "b", "running")
	lock.WriterID = id
	viewtest.Put(t, db, lock.Doc())

	snapshot, err := NewOffline(s, db).Snapshot(t.Context(), "1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for instance, want := range map[string]float64{"a": 2, "b": 40, "new": 0} {
		if got := snapshot.Instance(instance).HeartbeatAgeSeconds; got != want {
			t.Errorf("the last heartbeat of %s is %v s old, want %v", instance, got, want)
		}
	}
	found := map[string]api.Problem{}
	for _, p := range snapshot.Status.Problems {
		found[p.Reason] = p
	}
	silent, full := found[api.ProblemInstanceSilent], found[api.ProblemNoCapacity]
	if len(found) != 2 || silent.Instance != "b" || full.Group != "g" || full.Since != snapshot.Status.ObservedAt {
		t.Errorf("%+v", snapshot.Status.Problems)
	}
}

// TestOfflineWithoutReplicas holds that no help is promised for silent replicas when there is none.
func TestOfflineWithoutReplicas(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	db, s := memory.New(memory.WithClock(func() time.Time { return now })), viewtest.Settings(t)
	id := driver.WriterID{Session: "S", Seq: 1}
	for _, instance := range []string{"a", "b"} {
		member := elect.Member{Session: instance, Instance: instance}
		member.ListHashes = map[string]string{"g": s.Groups[0].Hash, "free": s.Groups[1].Hash}
		viewtest.Put(t, db, member.Doc(id), record.Session{
			ID: instance, Rev: 2, WriterID: id, State: record.Live, Instance: instance,
			Clock: now.Add(-time.Minute).UnixMilli(),
		}.Doc())
	}
	lock := viewtest.Lock("g/t1", "b", "running")
	lock.WriterID = id
	viewtest.Put(t, db, lock.Doc())
	snapshot, err := NewOffline(s, db).Snapshot(t.Context(), "1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, p := range snapshot.Status.Problems {
		if p.Reason == api.ProblemInstanceSilent {
			found[p.Instance] = p.Message
		}
	}
	const silent = "no heartbeat for three quarters of a lease"
	if found["a"] != silent+"; it owns no tasks" ||
		found["b"] != silent+", and no other replica is up to take over its task: start one" {
		t.Errorf("%q", found)
	}
}
