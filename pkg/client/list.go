package client

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// Filter selects items of a list. Conditions add up; the zero value selects everything. What a list does not take is
// refused: tasks and instances take Group, Instance, State, Selector and Q.
type Filter struct {
	Group, Instance string
	State           string    // may be several, by commas
	Kind            string    // of locks; may be several, by commas
	Task            string    // GROUP/NAME, of events
	Selector        string    // of labels, as kubectl takes it: "team=core,tier in (a,b),!retired"
	Q               string    // text that occurs
	Since           time.Time // of events
	// Limit is the most items that are read in all; 0: all there are, of events the newest 500.
	Limit int
}

func (f Filter) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"group": f.Group, "task": f.Task, "instance": f.Instance, "state": f.State, "kind": f.Kind,
		"selector": f.Selector, "q": f.Q,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if !f.Since.IsZero() {
		v.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return v
}

// all reads a list page by page. One that grew too old on the way is begun again, once.
func all[T any](ctx context.Context, c *Client, path string, f Filter) ([]T, error) {
	items, err := pages[T](ctx, c, path, f)
	if errors.Is(err, errExpired) {
		return pages[T](ctx, c, path, f)
	}
	return items, err
}

func pages[T any](ctx context.Context, c *Client, path string, f Filter) ([]T, error) {
	var items []T
	values := f.values()
	for {
		size := api.MaxLimit
		if f.Limit > 0 {
			size = min(size, f.Limit-len(items))
		}
		values.Set("limit", strconv.Itoa(size))
		var page api.List[T]
		if err := c.get(ctx, path, values, &page); err != nil {
			return nil, err
		}
		c.stale(page.Stale)
		items = append(items, page.Items...)
		if page.Continue == "" || f.Limit > 0 && len(items) >= f.Limit {
			return items, nil
		}
		values.Set("continue", page.Continue)
	}
}

// one reads one object of the cluster.
func one[T any](ctx context.Context, c *Client, path string) (*T, error) {
	answer := api.One[*T]{Item: new(T)}
	if err := c.get(ctx, path, nil, &answer); err != nil {
		return nil, err
	}
	c.stale(answer.Stale)
	return answer.Item, nil
}
