package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// offline answers from the store itself, through the very handler that a replica would answer with. So what is selected
// and how it is paged cannot differ.
func (g *Globals) offline(ctx context.Context) (*client.Client, error) {
	if g.requestTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.requestTimeout)
		defer cancel()
	}
	snapshot, err := g.Offline(ctx, g.config)
	if err != nil {
		return nil, err
	}
	snapshot.Sort()
	var board status.Board
	board.Publish(snapshot)
	c := status.Config{Source: &board}
	if g.Past != nil {
		c.Events, c.Runs, c.Mutexes = past{g}, past{g}, past{g}
	}
	handler := status.New(c)
	asked, err := client.New(
		"http://store", client.WithHTTPClient(&http.Client{Transport: direct{handler}}), client.WithTimeout(0),
		client.WithStale(g.stale.note),
	)
	g.stale.asked = asked
	return asked, err
}

func (g *Globals) isOffline() bool { return len(g.config) > 0 }

// past reads events, runs and mutexes from the store, each time that it is asked.
type past struct{ globals *Globals }

// Events implements [status.EventSource].
func (p past) Events(ctx context.Context, q status.EventQuery) (found []api.Event, err error) {
	err = p.globals.Past(ctx, p.globals.config, func(s status.StoreSource) error {
		found, err = s.Events(ctx, q)
		return err
	})
	return found, err
}

// EventsChanged implements [status.EventSource].
func (p past) EventsChanged() <-chan struct{} { return nil }

// Runs implements [status.RunSource].
func (p past) Runs(ctx context.Context, key string) (found []api.Run, err error) {
	err = p.globals.Past(ctx, p.globals.config, func(s status.StoreSource) error {
		found, err = s.Runs(ctx, key)
		return err
	})
	return found, err
}

// Mutexes implements [status.MutexSource].
func (p past) Mutexes(ctx context.Context) (found []api.Lock, err error) {
	err = p.globals.Past(ctx, p.globals.config, func(s status.StoreSource) error {
		found, err = s.Mutexes(ctx)
		return err
	})
	return found, err
}

// direct hands requests to a handler without a network. Answers are whole: it cannot stream.
type direct struct{ handler http.Handler }

// RoundTrip implements [http.RoundTripper].
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &answer{header: http.Header{}, code: http.StatusOK}
	d.handler.ServeHTTP(w, r)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.code, http.StatusText(w.code)), StatusCode: w.code, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}, nil
}

type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(code int)        { a.code = code }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
