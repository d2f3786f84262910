package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// appOf is an owner that answers as its handler does, and what the API says of it.
func appOf(t *testing.T, token int64, handle http.HandlerFunc) api.KeyOwner {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return api.KeyOwner{
		Key: "g/a", Group: "g", Name: "a", Owner: api.Owner{FencingToken: token},
		Address: strings.TrimPrefix(server.URL, "http://"),
	}
}

// routing is a table of these owners.
func routing(t *testing.T, owners ...api.KeyOwner) *Router {
	t.Helper()
	c, err := New("http://replica")
	if err != nil {
		t.Fatal(err)
	}
	r := c.Router("g")
	r.apply(Change[api.KeyOwner]{Kind: Snapshot, Items: owners})
	return r
}

func upsert(o api.KeyOwner) Change[api.KeyOwner] {
	return Change[api.KeyOwner]{Kind: Upsert, Items: []api.KeyOwner{o}}
}

// call sends a request for the key g/a and returns the status and the body of the answer.
func call(t *testing.T, r *Router, o RouteOptions, body io.Reader) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://topics/path?x=1", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(api.KeyHeader, "g/a")
	resp, err := (&http.Client{Transport: r.Transport(o)}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprint(w, r.Header.Get(api.KeyHeader), " ", r.Header.Get(api.TokenHeader), " ", r.URL, " ", string(body))
}

func TestRequestsGoToTheOwner(t *testing.T) {
	owner := appOf(t, 7, func(w http.ResponseWriter, r *http.Request) {
		if "http://"+r.Host == "http://topics" {
			t.Error("the owner is asked under the name of the URL")
		}
		echo(w, r)
	})
	status, body, err := call(t, routing(t, owner), RouteOptions{}, strings.NewReader("hello"))
	if status != http.StatusOK || body != "g/a 7 /path?x=1 hello" || err != nil {
		t.Errorf("%d, %q, %v", status, body, err)
	}
}

// A request that was refused, or could not be sent, goes to the next owner, with its body. It goes there once.
func TestRequestsLookAgainOnce(t *testing.T) {
	gone := appOf(t, 7, echo)
	gone.Address = "127.0.0.1:1" // nothing listens there
	var refusals atomic.Int32
	var moves func() // on the first refusal
	refusing := func(w http.ResponseWriter, _ *http.Request) {
		if refusals.Add(1) == 1 {
			moves()
		}
		w.WriteHeader(http.StatusMisdirectedRequest)
	}
	stream := io.MultiReader(strings.NewReader("x"))
	for name, test := range map[string]struct {
		first, second api.KeyOwner
		body          io.Reader
		status        int
		refusals      int32
	}{
		"a key that moved":          {appOf(t, 7, refusing), appOf(t, 8, echo), strings.NewReader("hello"), 200, 1},
		"an owner that is gone":     {gone, appOf(t, 8, echo), strings.NewReader("hello"), 200, 0},
		"two that refuse":           {appOf(t, 7, refusing), appOf(t, 8, refusing), strings.NewReader("hello"), 421, 2},
		"a body that is not kept":   {appOf(t, 7, refusing), appOf(t, 8, echo), stream, 421, 1},
		"the same one, a bit later": {appOf(t, 7, refusing), api.KeyOwner{}, nil, 421, 2},
	} {
		t.Run(name, func(t *testing.T) {
			refusals.Store(0)
			r := routing(t, test.first)
			wait := time.Minute
			moves = func() { r.apply(upsert(test.second)) }
			switch {
			case test.second.Key == "":
				wait, moves = time.Millisecond, func() {}
			case test.refusals == 0: // the first one cannot say so
				time.AfterFunc(time.Millisecond, moves)
			}
			status, body, err := call(t, r, RouteOptions{Wait: wait}, test.body)
			if status != test.status || err != nil || refusals.Load() != test.refusals {
				t.Errorf("%d, %q, %v after %d refusals", status, body, err, refusals.Load())
			}
			if status == http.StatusOK && body != "g/a 8 /path?x=1 hello" {
				t.Errorf("the second owner got %q", body)
			}
		})
	}
}

// What may have been carried out is not sent again.
func TestBrokenAnswersAreNotRepeated(t *testing.T) {
	var calls atomic.Int32
	owner := appOf(t, 7, func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	})
	status, _, err := call(t, routing(t, owner), RouteOptions{Wait: time.Millisecond}, strings.NewReader("hello"))
	if err == nil || calls.Load() != 1 {
		t.Errorf("%d, %v after %d calls", status, err, calls.Load())
	}
}

func TestRequestsWaitForAnOwner(t *testing.T) {
	owner := appOf(t, 7, echo)
	silent := owner
	silent.Address = ""
	for name, r := range map[string]*Router{"none is known": routing(t), "it has no address": routing(t, silent)} {
		if _, _, err := call(t, r, RouteOptions{Wait: time.Millisecond}, nil); !errors.Is(err, ErrNoOwner) {
			t.Errorf("%s: %v", name, err)
		}
		owner.FencingToken++ // it has another session
		time.AfterFunc(time.Millisecond, func() { r.apply(upsert(owner)) })
		if status, _, err := call(t, r, RouteOptions{Wait: time.Minute}, nil); status != http.StatusOK {
			t.Errorf("%s: %d, %v once there is one", name, status, err)
		}
	}
}

// A replica that is behind takes no newer owner out of the table.
func TestOlderOwnersDoNotReplaceNewer(t *testing.T) {
	older, newer := api.KeyOwner{Key: "g/a"}, api.KeyOwner{Key: "g/a"}
	older.FencingToken, newer.FencingToken = 7, 8
	r := routing(t, older)
	token := func() int64 {
		o, _ := r.Owner("g/a")
		return o.FencingToken
	}
	for _, step := range []struct {
		change Change[api.KeyOwner]
		want   int64
	}{
		{upsert(newer), 8},
		{upsert(older), 8},
		{Change[api.KeyOwner]{Kind: Snapshot, Items: []api.KeyOwner{older}}, 8},
		{Change[api.KeyOwner]{Kind: Delete, Items: []api.KeyOwner{older}}, 8},
		{Change[api.KeyOwner]{Kind: Delete, Items: []api.KeyOwner{newer}}, 0},
		{upsert(older), 7},
		{Change[api.KeyOwner]{Kind: Snapshot}, 0},
	} {
		r.apply(step.change)
		if got := token(); got != step.want {
			t.Errorf("after %s of %v: token %d, want %d", step.change.Kind, step.change.Items, got, step.want)
		}
	}
}

func TestARouterFollowsTheWatch(t *testing.T) {
	s := &script{steps: []http.HandlerFunc{
		fails(http.StatusServiceUnavailable, api.ReasonNotReady),
		sends("event: snapshot\nid: 1\ndata: {\"items\":[{\"key\":\"g/a\",\"address\":\"x:1\"}]}\n\n", true),
	}}
	ctx, cancel := context.WithCancel(t.Context())
	r := quick(t, s).Router("g")
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	if o, err := r.Await(ctx, "g/a", -1, time.Minute); err != nil || o.Address != "x:1" {
		t.Errorf("%+v, %v", o, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
