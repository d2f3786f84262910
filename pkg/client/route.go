package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// DefaultWait is how long a request waits for an owner unless [RouteOptions] say otherwise.
const DefaultWait = time.Second

// RouteOptions say how requests find their owner.
type RouteOptions struct {
	// Key names the key of a request, GROUP/NAME. Nil: its header Shardctl-Key does.
	Key func(*http.Request) string
	// Base sends the requests; nil: [http.DefaultTransport].
	Base http.RoundTripper
	// Wait is how long a request waits at most for an owner, and for another one; 0: [DefaultWait].
	Wait time.Duration
}

// Finder finds owners. A [Router] is one.
type Finder interface {
	// Await returns the owner of a key, GROUP/NAME, with an address. It waits at most that long for one with another
	// token than refused; then it returns the owner that is known. Without one the error wraps [ErrNoOwner].
	Await(ctx context.Context, key string, refused int64, most time.Duration) (api.KeyOwner, error)
}

// Transport is [NewTransport] with the owners of this table: [Router.Run] has to go on meanwhile.
func (r *Router) Transport(o RouteOptions) http.RoundTripper { return NewTransport(r, o) }

// NewTransport returns a RoundTripper that sends each request to the owner of its key: host and port of the URL are
// replaced. The request has the headers Shardctl-Key and Shardctl-Fencing-Token, the token of the owner that is meant.
//
// It looks again once when the owner answers 421 or cannot be connected to, as nothing was done then. It waits for
// another owner, and sends the request once more. A body needs [http.Request.GetBody] for that. Any other failure is
// returned: only the caller knows whether its request may be repeated.
//
// The error of the finder is returned where no owner was found.
func NewTransport(f Finder, o RouteOptions) http.RoundTripper {
	t := &transport{finder: f, key: o.Key, base: o.Base, wait: cmp.Or(o.Wait, DefaultWait)}
	if t.key == nil {
		t.key = func(req *http.Request) string { return req.Header.Get(api.KeyHeader) }
	}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	return t
}

type transport struct {
	finder Finder
	key    func(*http.Request) string
	base   http.RoundTripper
	wait   time.Duration
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	key := t.key(req)
	owner, err := t.finder.Await(req.Context(), key, 0, t.wait)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper has to
		}
		return nil, err
	}
	resp, err := t.send(req, req.Body, owner)
	if !notDone(resp, err) || !repeatable(req) {
		return resp, err
	}
	next, failed := t.finder.Await(req.Context(), key, owner.FencingToken, t.wait)
	if failed != nil {
		return resp, err
	}
	body, failed := bodyAgain(req)
	if failed != nil {
		return resp, err
	}
	if resp != nil {
		_ = resp.Body.Close() // it is not read: nothing says that it ends
	}
	return t.send(req, body, next)
}

func (t *transport) send(req *http.Request, body io.ReadCloser, to api.KeyOwner) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.Body, out.Host, out.URL.Host = body, "", to.Address
	out.Header.Set(api.KeyHeader, to.Key)
	out.Header.Set(api.TokenHeader, strconv.FormatInt(to.FencingToken, 10))
	return t.base.RoundTrip(out)
}

// notDone says that a request was not carried out: the owner refused it, or there was no connection.
func notDone(resp *http.Response, err error) bool {
	if err == nil {
		return resp.StatusCode == http.StatusMisdirectedRequest
	}
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}

// repeatable says whether the body can be sent again.
func repeatable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

func bodyAgain(req *http.Request) (io.ReadCloser, error) {
	if req.GetBody == nil {
		return req.Body, nil // there is none
	}
	return req.GetBody()
}
