package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// DefaultTimeout bounds each request unless [WithTimeout] says otherwise.
const DefaultTimeout = 10 * time.Second

// Client asks a replica. It holds no connection of its own and needs no closing. It may be used from many goroutines.
type Client struct {
	base    string // without a slash at its end
	http    *http.Client
	token   func() (string, error)
	timeout time.Duration
	stale   func(bool)
	pace    pace
}

// Option changes how a client asks.
type Option func(*Client) error

// New returns a client of the replica at that address, as http://127.0.0.1:8081, or of a prefix of paths that a proxy
// hands on, as https://example.org/shardctl. It asks nothing yet. An error names what is wrong with the address or an
// option.
func New(baseURL string, options ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil: // the error repeats the text, which may hold a password
		return nil, errors.New("client: base URL: not a URL; want http://HOST:PORT or https://HOST:PORT")
	case u.User != nil:
		return nil, errors.New("client: base URL: holds a user or a password; give a token with WithToken")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("client: base URL %q: want http://HOST:PORT or https://HOST:PORT", baseURL)
	}
	c := &Client{
		base: strings.TrimRight(baseURL, "/"), http: http.DefaultClient, timeout: DefaultTimeout, pace: defaultPace(),
		token: func() (string, error) { return "", nil }, stale: func(bool) {},
	}
	for _, option := range options {
		if err := option(c); err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
	}
	return c, nil
}

// WithToken has the client send a bearer token with each request. Empty: none.
func WithToken(token string) Option {
	return func(c *Client) error {
		token, err := cleanToken(token)
		c.token = func() (string, error) { return token, err }
		return err
	}
}

// WithTokenFile has the client send the token that a file holds. The file is read for each request, so that a token may
// be rotated while the client is in use. The file need not be there yet.
func WithTokenFile(path string) Option {
	return func(c *Client) error {
		if path == "" {
			return errors.New("token file: no path is given")
		}
		c.token = func() (string, error) {
			text, err := os.ReadFile(path) //nolint:gosec // G304: the file is the one that the caller names
			if err != nil {
				return "", fmt.Errorf("token file: %w", err)
			}
			return cleanToken(string(text))
		}
		return nil
	}
}

// cleanToken is the token without white space around it. An error never shows it.
func cleanToken(text string) (string, error) {
	token := strings.TrimSpace(text)
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("token: holds white space or what is not ASCII; want one word")
	}
	return token, nil
}

// WithHTTPClient has requests made by this client, with its certificates, proxies and transport. Its timeout should be
// 0: it would end watches. Nil: [http.DefaultClient].
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) error {
		if h != nil {
			c.http = h
		}
		return nil
	}
}

// WithTimeout bounds each request: all of it or, of a watch, the time until it begins. 0: only the context does.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) error {
		if d < 0 {
			return fmt.Errorf("timeout %s: want 0 or more", d)
		}
		c.timeout = d
		return nil
	}
}

// WithStale has note called with what each answer about the cluster says of itself. True says that the store was
// unreachable, and that this is what was last seen. Each page of a list is an answer. Watches do not call note: their
// snapshots say so in [Change].Stale. It is called by the goroutine that asks, before that gets the answer.
func WithStale(note func(stale bool)) Option {
	return func(c *Client) error {
		if note == nil {
			return errors.New("stale: no function is given")
		}
		c.stale = note
		return nil
	}
}

// Tasks is for what is about tasks.
func (c *Client) Tasks() Tasks { return Tasks{c} }

// Groups is for what is about groups.
func (c *Client) Groups() Groups { return Groups{c} }

// Instances is for what is about instances: the replicas.
func (c *Client) Instances() Instances { return Instances{c} }

// Locks is for what is about locks.
func (c *Client) Locks() Locks { return Locks{c} }

// Owners is for who owns which key.
func (c *Client) Owners() Owners { return Owners{c} }

// Overrides is for what operators asked for.
func (c *Client) Overrides() Overrides { return Overrides{c} }

// Events is for what is about events.
func (c *Client) Events() Events { return Events{c} }

// BaseURL is the address that is asked, without a slash at its end.
func (c *Client) BaseURL() string { return c.base }

// limit is ctx, ended after the timeout unless answered is called before.
func (c *Client) limit(ctx context.Context) (limited context.Context, answered func()) {
	limited, cancel := context.WithCancelCause(ctx)
	if c.timeout <= 0 {
		return limited, func() { cancel(nil) }
	}
	timer := time.AfterFunc(c.timeout, func() { cancel(context.DeadlineExceeded) })
	return limited, func() { timer.Stop(); cancel(nil) }
}

// cause is why ctx has ended, else err.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

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
