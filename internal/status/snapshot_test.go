package status

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/pkg/api"
)

// The JSON is the contract of the API: these texts are compared whole, so that no field is renamed, left out or moved.
func TestJSONIsTheContract(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"empty status": {api.Status{}, `{"cluster":"","instance":"","version":"","observedAt":null,"stale":false,` +
			`"ready":false,` +
			`"draining":false,"store":{"kind":"","reachable":false,"error":""},"groups":[],"problems":[]}`},
		"group": {
			api.Group{
				Name: "topics", Cap: new(20),
				TaskCounts: api.TaskCounts{Tasks: 100, Running: 98, Starting: 1, Unassigned: 1}, Capacity: new(200),
				Headroom: new(80), Imbalance: 1,
			},
			`{"name":"topics","cap":20,"tasks":100,"waiting":0,"running":98,"starting":1,"stopping":0,"backoff":0,` +
				`"unassigned":1,` +
				`"paused":0,"done":0,"failed":0,"capacity":200,"headroom":80,"imbalance":1,"overrides":[],` +
				`"discovery":null,"weights":null}`,
		},
		"group without cap": {api.Group{}, `{"name":"","cap":null,"tasks":0,"waiting":0,"running":0,"starting":0,` +
			`"stopping":0,"backoff":0,` +
			`"unassigned":0,"paused":0,"done":0,"failed":0,"capacity":null,"headroom":null,"imbalance":0,` +
			`"overrides":[],"discovery":null,"weights":null}`},
		"problem": {
			api.Problem{Reason: api.ProblemNoCapacity, Severity: api.SeverityError, Since: api.Time{Time: epoch}},
			`{"reason":"NoCapacity","severity":"error","message":"","group":"","task":"","instance":"",` +
				`"since":"2026-01-02T03:04:05.000Z"}`,
		},
		"tasks": {
			api.List[api.Task]{Items: []api.Task{
				{Key: "topics/topic-001", Owner: api.Owner{FencingToken: 7, OwnedSince: api.Millis(1500)}},
			}},
			`{"items":[{"key":"topics/topic-001","group":"","name":"","kind":"","labels":{},"state":"",` +
				`"instance":"","session":"","fencingToken":7,` +
				`"ownedSince":"1970-01-01T00:00:01.500Z","stateSince":null,"reason":"","message":"","restarts":0,` +
				`"lastError":"","nextRunAt":null,"pinnedTo":"","overrides":[],"lag":null,` +
				`"weight":0,"declaredWeight":0}],"continue":"","stale":false}`,
		},
		"instances": {
			api.List[api.Instance]{
				Items: []api.Instance{
					{Name: "a", State: api.Live, HeartbeatAgeSeconds: 1.2, Owned: api.Counts{"topics": 20}},
				},
			},
			`{"items":[{"name":"a","session":"","state":"live","message":"","zone":"","labels":{},"version":"",` +
				`"revision":"","address":"","startedAt":null,` +
				`"heartbeatAgeSeconds":1.2,"owned":{"topics":20},"caps":{},"overrides":[]}],"continue":"",` +
				`"stale":false}`,
		},
		"events": {
			api.List[api.Event]{Items: []api.Event{{ID: "1"}}, Continue: "x"},
			`{"items":[{"id":"1","time":null,"type":"","reason":"","key":"","from":"","to":"","fencingToken":0,` +
				`"by":"","message":""}],"continue":"x","stale":false}`,
		},
		"no locks": {api.List[api.Lock]{}, `{"items":[],"continue":"","stale":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := json.Marshal(c.value)
			if err != nil {
				t.Fatal(err)
			}
			if string(b) != c.want {
				t.Errorf("got  %s\nwant %s", b, c.want)
			}
		})
	}
}

func TestTimeReadsWhatItWrites(t *testing.T) {
	for _, at := range []api.Time{{}, {Time: epoch}, api.Millis(1)} {
		b, err := json.Marshal(at)
		if err != nil {
			t.Fatal(err)
		}
		var back api.Time
		if err := json.Unmarshal(b, &back); err != nil || !back.Equal(at.Time) {
			t.Errorf("%s came back as %v, %v", b, back, err)
		}
	}
	var other api.Time
	if err := json.Unmarshal([]byte(`"2026-01-02T05:04:05+02:00"`), &other); err != nil || !other.Equal(epoch) {
		t.Errorf("a time zone: %v, %v", other, err)
	}
	if err := json.Unmarshal([]byte(`"yesterday"`), &other); err == nil {
		t.Error("yesterday was read as a moment")
	}
}

func TestCountsAddUpToTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g api.Group
		states := append(api.TaskStates(), "never heard of")
		picked := rapid.SliceOf(rapid.SampledFrom(states)).Draw(t, "states")
		for _, s := range picked {
			g.Count(s)
		}
		sum := 0
		for _, s := range api.TaskStates() {
			sum += g.InState(s)
		}
		if g.Tasks != len(picked) || sum != g.Tasks {
			t.Fatalf("%d tasks, counted %d, states add up to %d", len(picked), g.Tasks, sum)
		}
	})
}

func TestRoom(t *testing.T) {
	ten := func(limit, owned int) []Offer {
		offers := make([]Offer, 10)
		for i := range offers {
			offers[i] = Offer{Cap: limit, Owned: owned}
		}
		return offers
	}
	for name, c := range map[string]struct {
		group              api.Group
		offers             []Offer
		capacity, headroom *int
		imbalance          int
	}{
		"ten of twenty": {
			api.Group{TaskCounts: api.TaskCounts{Running: 98, Starting: 1, Unassigned: 1}},
			ten(20, 10), new(200),
			new(80), 0,
		},
		"full": {
			api.Group{TaskCounts: api.TaskCounts{Running: 80, Unassigned: 20}},
			[]Offer{{20, 20}, {20, 20}, {20, 20}, {20, 20}},
			new(80), new(-40), 0,
		},
		"largest is lost": {
			api.Group{TaskCounts: api.TaskCounts{Running: 5}}, []Offer{{30, 3}, {10, 2}}, new(40), new(5), 1,
		},
		"paused wait not": {
			api.Group{TaskCounts: api.TaskCounts{Running: 1, Paused: 7, Done: 7, Failed: 7}},
			[]Offer{{5, 1}, {5, 0}},
			new(10), new(4), 1,
		},
		"no cap": {
			api.Group{TaskCounts: api.TaskCounts{Running: 5}}, []Offer{{-1, 5}, {20, 0}}, nil, nil, 5,
		},
		"no instance, no cap": {api.Group{TaskCounts: api.TaskCounts{Unassigned: 3}}, nil, nil, nil, 0},
		"no instance, with cap": {
			api.Group{Cap: new(20), TaskCounts: api.TaskCounts{Unassigned: 3}}, nil, new(0), new(-3), 0,
		},
		"full is not idle": {
			api.Group{TaskCounts: api.TaskCounts{Running: 12}}, []Offer{{2, 2}, {20, 10}}, new(22), new(-10), 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := c.group
			Measure(&g, c.offers)
			if !sameInt(g.Capacity, c.capacity) || !sameInt(g.Headroom, c.headroom) || g.Imbalance != c.imbalance {
				b, _ := json.Marshal(g)
				t.Errorf("got %s", b)
			}
		})
	}
}

func TestProblemsAreSortedWorstFirst(t *testing.T) {
	list := []api.Problem{
		{Reason: "B", Severity: api.SeverityWarning},
		{Reason: "Z", Severity: api.SeverityError, Task: "g/b"},
		{Reason: "Z", Severity: api.SeverityError, Task: "g/a"},
		{Reason: "A", Severity: api.SeverityWarning},
	}
	SortProblems(list)
	got := ""
	for _, p := range list {
		got += p.Reason + p.Task + " "
	}
	if got != "Zg/a Zg/b A B " {
		t.Error(got)
	}
}

func TestInstanceOfSeveralSessionsIsTheLivingOne(t *testing.T) {
	s := &Snapshot{Instances: []api.Instance{
		{Name: "a", Session: "1", State: api.Dead, StartedAt: api.Time{Time: epoch.Add(time.Hour)}},
		{Name: "a", Session: "2", State: api.Live, StartedAt: api.Time{Time: epoch}},
		{Name: "a", Session: "3", State: api.Live, StartedAt: api.Time{Time: epoch.Add(time.Minute)}},
		{Name: "a", Session: "4", State: api.Draining},
	}}
	if got := s.Instance("a"); got == nil || got.Session != "3" {
		t.Errorf("got %+v", got)
	}
}
