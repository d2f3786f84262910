package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/shardctl/shardctl/pkg/api"
)

// Status reads the cluster on one screen: its groups, and what is wrong.
func (c *Client) Status(ctx context.Context) (*api.Status, error) {
	return one[api.Status](ctx, c, "/api/v1/status")
}

// WatchStatus calls handle with the status, and then with each change of it, until ctx ends or handle returns an error.
// It returns why: the cause of ctx, or the error of handle.
//
// A connection that breaks, or on which nothing has come for 45 seconds, is made again, after a second at first and up
// to ten later; every one begins with all there is. So a watch outlives a rolling update, and changes in between are
// not lost but may arrive as one. The first connection is not tried again unless [WatchOptions].Patient says so, and
// none is that a replica refuses: that error is returned.
func (c *Client) WatchStatus(ctx context.Context, o WatchOptions, handle func(*api.Status) error) error {
	return c.watch(ctx, "/api/v1/status", o, func(_, _ string, data []byte) error {
		var s api.Status
		if err := json.Unmarshal(data, &s); err != nil {
			return fmt.Errorf("read a change: %w", err)
		}
		return handled(handle(&s))
	})
}

// WhoAmI says as whom the client asks, what that one's role is, and which changes the listener takes from it. A token
// that is not known is [ErrUnauthorized].
func (c *Client) WhoAmI(ctx context.Context) (*api.Caller, error) {
	who := new(api.Caller)
	if err := c.get(ctx, "/api/v1/whoami", nil, who); err != nil {
		return nil, err
	}
	return who, nil
}

// Livez is nil when the replica lives. It never asks the store.
func (c *Client) Livez(ctx context.Context) error { return c.probe(ctx, "/livez") }

// Readyz is nil when the replica has started and is not draining.
func (c *Client) Readyz(ctx context.Context) error { return c.probe(ctx, "/readyz") }

func (c *Client) probe(ctx context.Context, path string) error {
	ctx, answered := c.limit(ctx)
	defer answered()
	resp, err := c.read(ctx, path, nil, "text/plain", "")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
