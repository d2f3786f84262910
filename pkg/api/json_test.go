package api_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/pkg/api"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// The JSON is flat, with its fields in the order in which they have always been, also those that are declared apart.
func TestJSONIsFlat(t *testing.T) {
	n := 20
	owner := api.Owner{Instance: "a", Session: "A", FencingToken: 7, OwnedSince: api.Millis(1500)}
	for _, test := range []struct {
		value, into any
		want        string
	}{
		{
			api.Task{
				Key: "g/t", Group: "g", Name: "t", Kind: "exec", State: api.Running, Owner: owner,
				StateSince: api.Millis(2500), Reason: "Created", Message: "new", Restarts: 1, LastError: "e",
				PinnedTo: "a", Lag: &api.Lag{Messages: 3, Seconds: -1}, Load: new(2.5), Weight: 4,
				DeclaredWeight: 2,
			},
			&api.Task{},
			`{"key":"g/t","group":"g","name":"t","kind":"exec","labels":{},"state":"running","instance":"a",` +
				`"session":"A","fencingToken":7,"ownedSince":"1970-01-01T00:00:01.500Z",` +
				`"stateSince":"1970-01-01T00:00:02.500Z","reason":"Created","message":"new","restarts":1,` +
				`"lastError":"e","nextRunAt":null,"pinnedTo":"a","overrides":[],"lag":{"messages":3,"seconds":-1},` +
				`"load":2.5,"weight":4,"declaredWeight":2}`,
		},
		{
			api.Lock{Key: "g/t", Group: "g", Name: "t", Owner: owner, Reason: "Created", Next: "B", Suspended: true},
			&api.Lock{},
			`{"key":"g/t","group":"g","name":"t","instance":"a","session":"A","fencingToken":7,` +
				`"ownedSince":"1970-01-01T00:00:01.500Z","reason":"Created","message":"","next":"B","suspended":true,` +
				`"kind":"","limit":0,"holders":[],"waiting":0,"queue":[],"keptUntil":null}`,
		},
		{
			api.Lock{
				Key: "m", Name: "m", Kind: api.LockSemaphore, Limit: 5, Waiting: 2, KeptUntil: api.Millis(3500),
				Holders: api.LockHolders{{
					Instance: "a", Session: "A", FencingToken: 7, Slot: 1,
					HeldSince: api.Millis(1500),
				}},
				Queue: api.LockQueue{{Instance: "b", Session: "B", Shared: true}},
			},
			&api.Lock{},
			`{"key":"m","group":"","name":"m","instance":"","session":"","fencingToken":0,"ownedSince":null,"reason":"",` +
				`"message":"","next":"","suspended":false,"kind":"semaphore","limit":5,"holders":[{"instance":"a",` +
				`"session":"A","fencingToken":7,"shared":false,"slot":1,"heldSince":"1970-01-01T00:00:01.500Z"}],` +
				`"waiting":2,"queue":[{"instance":"b","session":"B","shared":true}],` +
				`"keptUntil":"1970-01-01T00:00:03.500Z"}`,
		},
		{
			api.Group{
				Name: "g", Cap: &n, TaskCounts: api.TaskCounts{
					Tasks: 45, Waiting: 1, Running: 2, Starting: 3, Stopping: 4, Backoff: 5, Unassigned: 6, Paused: 7,
					Done: 8, Failed: 9,
				}, Capacity: &n, Imbalance: 1,
			},
			&api.Group{},
			`{"name":"g","cap":20,"tasks":45,"waiting":1,"running":2,"starting":3,"stopping":4,"backoff":5,` +
				`"unassigned":6,"paused":7,"done":8,"failed":9,"capacity":20,"headroom":null,"imbalance":1,"slots":0,` +
				`"overrides":[],"discovery":null,"weights":null}`,
		},
		{
			api.One[*api.Caller]{Item: &api.Caller{Name: "eve", Role: api.RoleRead}, Stale: true},
			&api.One[*api.Caller]{},
			`{"name":"eve","role":"read","verbs":[],"stale":true}`,
		},
		{
			api.Caller{Name: "eve", Role: api.RoleRead},
			&api.Caller{},
			`{"name":"eve","role":"read","verbs":[]}`,
		},
	} {
		text, err := json.Marshal(test.value)
		if err != nil || string(text) != test.want {
			t.Errorf("%v\ngot  %s\nwant %s", err, text, test.want)
		}
		if err := json.Unmarshal(text, test.into); err != nil {
			t.Error(err)
		}
		again, err := json.Marshal(test.into)
		if err != nil || string(again) != test.want {
			t.Errorf("read back: %v\ngot  %s\nwant %s", err, again, test.want)
		}
	}
}

// Every state is counted, and the states add up to all tasks.
func TestCountsAddUp(t *testing.T) {
	var c api.TaskCounts
	for _, state := range append(api.TaskStates(), "of another version") {
		c.Count(state)
	}
	states := len(api.TaskStates())
	if fields := reflect.TypeFor[api.TaskCounts]().NumField(); fields != states+1 {
		t.Errorf("%d counts for %d states", fields, states)
	}
	sum := 0
	for _, state := range api.TaskStates() {
		sum += c.InState(state)
	}
	if c.Tasks != states+1 || sum != c.Tasks || c.Unassigned != 2 {
		t.Errorf("%+v: the states add up to %d", c, sum)
	}
}

func TestCallersMayWhatIsListed(t *testing.T) {
	c := api.Caller{Role: api.RoleOperate, Verbs: []api.Verb{api.Pause}}
	if !c.May(api.Pause) || c.May(api.Drain) || (api.Caller{}).May(api.Pause) {
		t.Errorf("%+v", c)
	}
}

// epoch is when everything in the tests happens.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

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
				`"paused":0,"done":0,"failed":0,"capacity":200,"headroom":80,"imbalance":1,"slots":0,"overrides":[],` +
				`"discovery":null,"weights":null}`,
		},
		"group without cap": {api.Group{}, `{"name":"","cap":null,"tasks":0,"waiting":0,"running":0,"starting":0,` +
			`"stopping":0,"backoff":0,` +
			`"unassigned":0,"paused":0,"done":0,"failed":0,"capacity":null,"headroom":null,"imbalance":0,"slots":0,` +
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
				`"load":null,"weight":0,"declaredWeight":0}],"continue":"","stale":false}`,
		},
		"instances": {
			api.List[api.Instance]{
				Items: []api.Instance{
					{Name: "a", State: api.Live, HeartbeatAgeSeconds: 1.2, Owned: api.Counts{"topics": 20}},
				},
			},
			`{"items":[{"name":"a","session":"","state":"live","message":"","zone":"","labels":{},"version":"",` +
				`"revision":"","address":"","appAddress":"","startedAt":null,` +
				`"heartbeatAgeSeconds":1.2,"owned":{"topics":20},"caps":{},"overrides":[],"application":null}],` +
				`"continue":"","stale":false}`,
		},
		"application": {
			api.Application{ID: "u", PID: 7},
			`{"id":"u","pid":7,"ready":false,"message":"","since":null,"lastCallAgeSeconds":null,"status":{},` +
				`"stopping":[]}`,
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
