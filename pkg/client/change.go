package client

import (
	"context"
	"crypto/rand"
	"net/url"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// ChangeOptions go with each change. The zero value is fine.
type ChangeOptions struct {
	Reason string // why, for who looks later; at most 1,024 characters
	DryRun bool   // change nothing: the result says what would change and move
	// For is how long a pause, pin, drain or cordon stands, 1 s to 8,760 h by the store's clock; 0: until it is taken
	// back.
	For time.Duration
	By  string // who asks, where no token says so
	// ID makes the same request one: asked for twice with the same ID it has one effect. Empty: one is drawn.
	ID string
}

// Selection says which tasks are meant. Conditions add up, names are alternatives. It is expanded to keys when the
// change is asked for: tasks declared later are not covered.
type Selection struct {
	Group    string   // all of a group, or the one that Tasks are named in
	Tasks    []string // GROUP/NAME, or NAME where Group is given; with *, ? and [a-z]
	Selector string   // of labels, as kubectl takes it
}

// Keys selects tasks as GROUP/NAME, each in full or with *, ? and [a-z].
func Keys(keys ...string) Selection { return Selection{Tasks: keys} }

func (o ChangeOptions) request() api.ChangeRequest {
	r := api.ChangeRequest{Reason: o.Reason, DryRun: o.DryRun, By: o.By, ID: o.ID}
	if o.For != 0 {
		r.For = o.For.String()
	}
	return r
}

func (c *Client) changeOne(
	ctx context.Context, under string, verb api.Verb, name string, r api.ChangeRequest,
) (*api.ChangeResult, error) {
	path := under + "/" + url.PathEscape(name) + "/" + url.PathEscape(string(verb))
	// A dry run is answered with a result, a change with the object as it is now.
	result := api.ChangeResult{
		Changed: []string{}, Unchanged: []string{}, Refused: []api.Refusal{}, Moves: []api.PlannedMove{},
	}
	var into any = &struct{}{}
	if r.DryRun {
		into = &result
	}
	header, err := c.post(ctx, path, withID(r), into)
	switch {
	case err != nil:
		return nil, err
	case r.DryRun:
	case header.Get(api.UnchangedHeader) != "":
		result.Unchanged = append(result.Unchanged, name)
	default:
		result.Changed = append(result.Changed, name)
	}
	return refusals(&result)
}

// refusals is the result, with an error where some or all was refused.
func refusals(result *api.ChangeResult) (*api.ChangeResult, error) {
	if len(result.Refused) > 0 {
		return result, &RefusedError{result.Refused}
	}
	return result, nil
}

// withID is the request with an id, so that it has one effect even where something on the way sends it twice.
func withID(r api.ChangeRequest) api.ChangeRequest {
	if r.ID == "" {
		r.ID = rand.Text()
	}
	return r
}
