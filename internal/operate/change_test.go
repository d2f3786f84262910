package operate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/test/viewtest"
)

// TestChangesOnAStore holds that changes are carried out on a store when no replica is up, for an instance that is down
// too. What is not known is refused. A preview writes nothing, and says what would move.
func TestChangesOnAStore(t *testing.T) {
	db, s := memory.New(), viewtest.Settings(t)
	id := driver.WriterID{Session: "S", Seq: 1}
	for _, m := range []struct {
		session, instance string
		state             record.SessionState
	}{{"A", "a", record.Live}, {"B", "b", record.Live}, {"C", "c", record.Dead}} {
		member := elect.Member{
			Session: m.session, Instance: m.instance, Caps: map[string]int{"g": 2},
			ListHashes: map[string]string{"g": s.Groups[0].Hash, "free": s.Groups[1].Hash},
		}
		viewtest.Put(
			t, db, member.Doc(id),
			record.Session{ID: m.session, Rev: 2, WriterID: id, State: m.state, Instance: m.instance}.Doc(),
		)
	}
	lock := viewtest.Lock("g/t1", "A", "running")
	lock.WriterID = id
	viewtest.Put(t, db, lock.Doc())

	change := func(verb api.Verb, scope record.Scope, preview bool, names ...string) api.ChangeResult {
		t.Helper()
		r := operate.Request{Verb: verb, Scope: scope, By: "ann", Reason: "test"}
		result, err := operate.ChangeStore(
			t.Context(), s, db, r, func(*snapshot.Cluster) ([]string, error) { return names, nil }, preview,
		)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	show := func() *snapshot.Cluster {
		t.Helper()
		snapshot, err := view.NewOffline(s, db).Snapshot(t.Context(), "1", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return snapshot
	}
	preview := change(api.Drain, record.ScopeInstance, true, "a")
	moved := false
	for _, m := range preview.Moves {
		moved = moved || m == api.PlannedMove{Key: "g/t1", From: "a", To: "b", Reason: "Drain"}
	}
	if !moved || show().Instance("a").State != api.Live {
		t.Errorf("%+v, %+v", preview, show().Instance("a"))
	}
	change(api.Drain, record.ScopeInstance, false, "a")
	if a := show().Instance("a"); a.State != api.Draining || len(a.Overrides) != 1 || a.Overrides[0].By != "ann" {
		t.Errorf("%+v", a)
	}
	if result := change(api.Drain, record.ScopeInstance, false, "c"); len(result.Changed) != 1 {
		t.Errorf("an instance that is down: %+v", result)
	}
	if show().Instance("c") != nil {
		t.Error("a dead instance is shown without a replica that knows since when")
	}
	if result := change(api.Drain, record.ScopeInstance, false, "x"); len(result.Refused) != 1 {
		t.Errorf("an instance that is not known: %+v", result)
	}
	change(api.Pause, record.ScopeTask, false, "g/t2", "g/t3")
	if tasks := show().Tasks.All(); tasks[2].State != api.Paused || tasks[3].State != api.Paused {
		t.Errorf("%+v", tasks)
	}
	_, err := operate.ChangeStore(t.Context(), s, db, operate.Request{Verb: api.Pin, Scope: record.ScopeTask},
		func(*snapshot.Cluster) ([]string, error) { return []string{"g/t1"}, nil }, false)
	if !errors.Is(err, operate.ErrInvalid) {
		t.Errorf("a pin to nowhere: %v", err)
	}
}
