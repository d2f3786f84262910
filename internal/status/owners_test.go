package status

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// owned is the sample with addresses and leases.
func owned(n int) *snapshot.Cluster {
	s := sample(n)
	s.Leases = map[string]time.Duration{}
	for i := range s.Instances {
		s.Instances[i].AppAddress = s.Instances[i].Name + ":9000"
		s.Leases[s.Instances[i].Session] = 15 * time.Second
	}
	s.ListOwners(nil)
	return s
}

func TestOwnersAreListed(t *testing.T) {
	h := New(Config{Source: boardWith(owned(4))}) // the last of them has no owner
	list := decode[api.List[api.KeyOwner]](t, get(t, h, "/api/v1/owners"))
	want := api.KeyOwner{
		Key: "topics/topic-0001", Group: "topics", Name: "topic-0001", Address: "b:9000", ValidForSeconds: 15,
		Owner: api.Owner{Instance: "b", Session: "session-b", FencingToken: 1, OwnedSince: api.Time{Time: epoch}},
	}
	if len(list.Items) != 3 || list.Items[0] != want {
		t.Errorf("got %+v, want 3 with %+v", list.Items, want)
	}
	for query, n := range map[string]int{"group=topics": 3, "group=none": 0, "name=*/topic-0001": 1, "instance=b": 1, "q=b:9000": 1} {
		list := decode[api.List[api.KeyOwner]](t, get(t, h, "/api/v1/owners?"+query))
		if len(list.Items) != n {
			t.Errorf("%s: %d owners, want %d", query, len(list.Items), n)
		}
	}
}

// A renewed lease is no change of an owner. A move, another address and a lost owner are.
func TestOwnersAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := owned(3)
		board := boardWith(first)
		watching(t, New(Config{Source: board}), "/api/v1/owners?watch=true", "", func(out *tape) {
			publish := func(change func(s *snapshot.Cluster)) string {
				next := clone(t, board.Snapshot())
				change(next)
				next.ListOwners(nil)
				board.Publish(next)
				time.Sleep(2 * watchPace)
				synctest.Wait()
				return out.take()
			}
			expect(t, out.take(), `snapshot {"items":[`)
			expect(t, publish(func(s *snapshot.Cluster) { s.Leases["session-b"] = 7 * time.Second }))
			expect(t, publish(func(s *snapshot.Cluster) {
				s.Tasks.All()[0].Owner = api.Owner{Instance: "a", Session: "session-a", FencingToken: 9}
			}), `upsert {"key":"topics/topic-0001"`)
			expect(t, publish(func(s *snapshot.Cluster) { s.Instances[0].AppAddress = "a:9001" }),
				`upsert {"key":"topics/topic-0001"`)
			expect(t, publish(func(s *snapshot.Cluster) { s.Tasks.All()[1].Owner = api.Owner{FencingToken: 2} }),
				`delete {"key":"topics/topic-0002"`)
		})
	})
}

// With for= the only owner is that of the key's slot.
func TestOwnersOfSlots(t *testing.T) {
	s := owned(256)
	for i := range s.Tasks.All() {
		s.Tasks.All()[i].Name = tasks.SlotName(i, 256)
		s.Tasks.All()[i].Key = "topics/" + s.Tasks.All()[i].Name
	}
	s.Group("topics").Slots = 256
	h := New(Config{Source: boardWith(s)})
	want := "topics/" + tasks.SlotName(tasks.Slot("acme", 256), 256)
	list := decode[api.List[api.KeyOwner]](t, get(t, h, "/api/v1/owners?group=topics&for=acme"))
	if len(list.Items) != 1 || list.Items[0].Key != want {
		t.Errorf("got %+v, want %s", list.Items, want)
	}
	for query, says := range map[string]string{
		"for=acme": "goes with one group", "for=acme&group=topics&group=x": "goes with one group",
		"for=acme&group=none": `group \"none\" has no slots`,
	} {
		if w := get(t, h, "/api/v1/owners?"+query); w.Code != http.StatusBadRequest ||
			!strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	if w := get(t, New(Config{Source: boardWith(owned(9))}), "/api/v1/owners?group=topics&for=acme"); w.Code != 400 {
		t.Errorf("a group without slots: %d %s", w.Code, w.Body)
	}
}
