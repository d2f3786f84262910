package status

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// epoch is when everything in the tests happens.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sample is a cluster of n tasks of the group topics on a, b and c, in turn; the last one has no owner.
func sample(n int) *Snapshot {
	s := &Snapshot{Status: api.Status{
		Cluster: "default", Instance: "a", Version: "1.0.0", ObservedAt: api.Time{Time: epoch}, Ready: true,
		Store:  api.Store{Kind: "sqlite", Reachable: true},
		Groups: []api.Group{{Name: "topics", Cap: new(20)}},
		Problems: []api.Problem{{
			Reason: api.ProblemNoCapacity, Severity: api.SeverityError, Message: "no instance has free capacity",
			Group: "topics",
			Task:  fmt.Sprintf("topics/topic-%04d", n), Since: api.Time{Time: epoch},
		}},
	}}
	group := &s.Status.Groups[0]
	owned := map[string]int{}
	for i := 1; i <= n; i++ {
		t := api.Task{
			Key: fmt.Sprintf("topics/topic-%04d", i), Group: "topics", Name: fmt.Sprintf("topic-%04d", i), Kind: "exec",
			Labels: api.Labels{"team": []string{"core", "edge"}[i%2]}, State: api.Running,
			Owner: api.Owner{
				Instance: string("abc"[i%3]), FencingToken: int64(i), OwnedSince: api.Time{Time: epoch},
			},
			StateSince: api.Time{Time: epoch}, Reason: "Created",
		}
		t.Session = "session-" + t.Instance
		if i == n {
			t.State, t.Reason, t.Owner = api.Unassigned, api.ProblemNoCapacity, api.Owner{FencingToken: t.FencingToken}
		}
		owned[t.Instance]++
		group.Count(t.State)
		s.Tasks = append(s.Tasks, t)
		s.Locks = append(s.Locks, api.Lock{
			Key: t.Key, Group: t.Group, Name: t.Name, Kind: api.LockTask,
			Owner: api.Owner{Instance: t.Instance, Session: t.Session, FencingToken: t.FencingToken},
		})
	}
	var offers []Offer
	for _, name := range []string{"a", "b", "c"} {
		offers = append(offers, Offer{Cap: 20, Owned: owned[name]})
		s.Instances = append(s.Instances, api.Instance{
			Name: name, Session: "session-" + name, State: api.Live, Zone: "z1", Version: "1.0.0",
			StartedAt:           api.Time{Time: epoch},
			HeartbeatAgeSeconds: 1.2, Owned: api.Counts{"topics": owned[name]}, Caps: api.Counts{"topics": 20},
		})
	}
	Measure(group, offers)
	s.Sort()
	return s
}

// clone copies a snapshot so that it can be changed and published as the next one.
func clone(t *testing.T, s *Snapshot) *Snapshot {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var c Snapshot
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

func boardWith(s *Snapshot) *Board {
	var b Board
	b.Publish(s)
	return &b
}

// get asks the handler and returns what it answered.
func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return v
}
