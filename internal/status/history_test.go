package status

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/shardctl/shardctl/pkg/api"
)

type fakeRuns []api.Run

func (f fakeRuns) Runs(_ context.Context, key string) ([]api.Run, error) {
	if key == "topics/topic-0002" {
		return nil, errors.New("unreachable")
	}
	return f, nil
}

func TestRunsOfATask(t *testing.T) {
	h := New(Config{Source: boardWith(sample(3)), Runs: fakeRuns{{
		ScheduledAt: api.Time{Time: epoch}, Result: "Failed", ExitCode: 3, Attempt: 2, Instance: "a",
		Output: "disk full",
	}}})
	got := decode[api.List[api.Run]](t, get(t, h, "/api/v1/tasks/topics/topic-0001/runs"))
	if len(got.Items) != 1 || got.Items[0].Output != "disk full" || got.Items[0].ExitCode != 3 {
		t.Errorf("%+v", got)
	}
	for path, want := range map[string]int{
		"/api/v1/tasks/topics/topic-0002/runs": http.StatusServiceUnavailable,
		"/api/v1/tasks/topics/none/runs":       http.StatusNotFound,
	} {
		if w := get(t, h, path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

func TestGroupByName(t *testing.T) {
	h := New(Config{Source: boardWith(sample(3))})
	if g := decode[api.Group](t, get(t, h, "/api/v1/groups/topics")); g.Name != "topics" || g.Tasks != 3 {
		t.Errorf("%+v", g)
	}
	if w := get(t, h, "/api/v1/groups/none"); w.Code != http.StatusNotFound {
		t.Errorf("%d", w.Code)
	}
}

func TestInstancesThatLeftAreHiddenUnlessAskedFor(t *testing.T) {
	s := sample(3)
	s.Instances[1].State, s.Instances[1].Message = api.Left, "it left in order"
	h := New(Config{Source: boardWith(s)})
	for path, want := range map[string]int{
		"/api/v1/instances": 2, "/api/v1/instances?state=left": 1, "/api/v1/instances?state=live,left": 3,
		"/api/v1/instances?instance=b": 1,
	} {
		if got := decode[api.List[api.Instance]](t, get(t, h, path)); len(got.Items) != want {
			t.Errorf("%s: %d, want %d", path, len(got.Items), want)
		}
	}
	if i := decode[api.Instance](t, get(t, h, "/api/v1/instances/b")); i.State != api.Left || i.Message == "" {
		t.Errorf("%+v", i)
	}
}

func TestEventsOfOneTask(t *testing.T) {
	store := &eventStore{}
	store.add("1", "2", "3")
	store.mu.Lock()
	store.events[0].Key, store.events[1].Key, store.events[2].Key = "topics/a", "topics/a1", "topics/a"
	store.mu.Unlock()
	h := New(Config{Source: boardWith(sample(3)), Events: store})
	if got := decode[api.List[api.Event]](t, get(t, h, "/api/v1/events?task=topics/a")); len(got.Items) != 2 {
		t.Errorf("%+v", got.Items)
	}
}
