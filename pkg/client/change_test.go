package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// taker notes the requests for changes that it gets.
type taker struct {
	mu     sync.Mutex
	asked  []string
	bodies []api.ChangeRequest
	answer any
}

func (k *taker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var body api.ChangeRequest
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil || r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	k.asked = append(k.asked, r.Method+" "+r.URL.EscapedPath())
	k.bodies = append(k.bodies, body)
	_ = json.NewEncoder(w).Encode(k.answer)
}

func TestEveryChangeIsAskedFor(t *testing.T) {
	k := &taker{answer: api.ChangeResult{Changed: []string{"x"}}}
	c := of(t, k.ServeHTTP)
	ctx, some := t.Context(), client.Selection{Group: "g", Tasks: []string{"a*"}, Selector: "team=core"}
	o := client.ChangeOptions{Reason: "why", By: "ann", ID: "1"}
	plain := api.ChangeRequest{Reason: "why", By: "ann", ID: "1"}
	selected := plain
	selected.Group, selected.Tasks, selected.Selector = "g", []string{"a*"}, "team=core"
	moved, pinned := selected, selected
	moved.Instance, pinned.Instance, pinned.Strict = "web-1", "zone=eu", true
	type call func() (*api.ChangeResult, error)
	ofTasks := func(f func(context.Context, client.Selection, client.ChangeOptions) (*api.ChangeResult, error)) call {
		return func() (*api.ChangeResult, error) { return f(ctx, some, o) }
	}
	ofOne := func(f func(context.Context, string, client.ChangeOptions) (*api.ChangeResult, error)) call {
		return func() (*api.ChangeResult, error) { return f(ctx, "a b", o) }
	}
	for i, test := range []struct {
		call call
		path string
		body api.ChangeRequest
	}{
		{ofOne(c.Instances().Drain), "instances/a%20b/drain", plain},
		{ofOne(c.Instances().Undrain), "instances/a%20b/undrain", plain},
		{ofOne(c.Instances().Cordon), "instances/a%20b/cordon", plain},
		{ofOne(c.Instances().Uncordon), "instances/a%20b/uncordon", plain},
		{ofOne(c.Groups().Pause), "groups/a%20b/pause", plain},
		{ofOne(c.Groups().Resume), "groups/a%20b/resume", plain},
		{ofOne(c.Groups().Rebalance), "groups/a%20b/rebalance", plain},
		{ofTasks(c.Tasks().Pause), "tasks/pause", selected},
		{ofTasks(c.Tasks().Resume), "tasks/resume", selected},
		{ofTasks(c.Tasks().Restart), "tasks/restart", selected},
		{ofTasks(c.Tasks().Rerun), "tasks/rerun", selected},
		{ofTasks(c.Tasks().Trigger), "tasks/trigger", selected},
		{ofTasks(c.Tasks().Unpin), "tasks/unpin", selected},
		{func() (*api.ChangeResult, error) { return c.Tasks().Move(ctx, some, "web-1", o) }, "tasks/move", moved},
		{
			func() (*api.ChangeResult, error) { return c.Tasks().Pin(ctx, some, "zone=eu", true, o) }, "tasks/pin",
			pinned,
		},
	} {
		result, err := test.call()
		if err != nil || len(result.Changed) != 1 {
			t.Errorf("%s: %+v, %v", test.path, result, err)
			continue
		}
		if got := k.asked[i]; got != "POST /api/v1/"+test.path || !reflect.DeepEqual(k.bodies[i], test.body) {
			t.Errorf("%s with %+v, want %s with %+v", got, k.bodies[i], test.path, test.body)
		}
	}
}

func TestDryRunsAndIDs(t *testing.T) {
	moves := []api.PlannedMove{{Key: "g/t", From: "a", To: "b", Reason: "Drain"}}
	k := &taker{answer: api.ChangeResult{Changed: []string{"a"}, Moves: moves}}
	c := of(t, k.ServeHTTP)
	for range 2 {
		result, err := c.Instances().Drain(t.Context(), "a", client.ChangeOptions{DryRun: true})
		if err != nil || !reflect.DeepEqual(result.Moves, moves) || len(result.Changed) != 1 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	if a, b := k.bodies[0], k.bodies[1]; !a.DryRun || a.ID == "" || a.ID == b.ID {
		t.Errorf("%+v and %+v: want a dry run, and an id of its own for each", a, b)
	}
}

func TestSomeAreRefused(t *testing.T) {
	k := &taker{answer: api.ChangeResult{Changed: []string{"g/a"}, Refused: []api.Refusal{
		{Name: "g/b", Reason: api.RefusedPaused, Message: "it is paused"},
		{Name: "g/c", Reason: api.ReasonNotFound, Message: "no such task"},
	}}}
	result, err := of(t, k.ServeHTTP).Tasks().Restart(t.Context(), client.Keys("g/*"), client.ChangeOptions{})
	var some *client.RefusedError
	if result == nil || len(result.Changed) != 1 || !errors.As(err, &some) || len(some.Refused) != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	if !strings.Contains(err.Error(), "g/b: it is paused (Paused); and 1 more") {
		t.Error(err)
	}
	for _, is := range []error{client.ErrRefused, client.ErrNotFound, &api.Error{Reason: api.RefusedPaused}} {
		if !errors.Is(err, is) {
			t.Errorf("is not %v", is)
		}
	}
	if errors.Is(err, client.ErrForbidden) {
		t.Error("is forbidden")
	}
}
