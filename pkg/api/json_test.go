package api_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/shardctl/shardctl/pkg/api"
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
				PinnedTo: "a", Lag: &api.Lag{Messages: 3, Seconds: -1}, Weight: 4, DeclaredWeight: 2,
			},
			&api.Task{},
			`{"key":"g/t","group":"g","name":"t","kind":"exec","labels":{},"state":"running","instance":"a",` +
				`"session":"A","fencingToken":7,"ownedSince":"1970-01-01T00:00:01.500Z",` +
				`"stateSince":"1970-01-01T00:00:02.500Z","reason":"Created","message":"new","restarts":1,` +
				`"lastError":"e","nextRunAt":null,"pinnedTo":"a","overrides":[],"lag":{"messages":3,"seconds":-1},` +
				`"weight":4,"declaredWeight":2}`,
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
				`"unassigned":6,"paused":7,"done":8,"failed":9,"capacity":20,"headroom":null,"imbalance":1,` +
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
