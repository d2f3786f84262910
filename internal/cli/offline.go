package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/shardctl/shardctl/internal/status"
)

// offline answers from the store itself, through the very handler that a replica would answer with. So what is selected
// and how it is paged cannot differ.
func (g *Globals) offline(ctx context.Context) (*status.Client, error) {
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
	handler := status.New(status.Config{Source: &board})
	return &status.Client{BaseURL: "http://store", HTTP: &http.Client{Transport: direct{handler}}}, nil
}

func (g *Globals) isOffline() bool { return len(g.config) > 0 }

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
