// Package direct has HTTP clients call a handler without a network, so that both may run in a bubble of
// testing/synctest.
//
// Only tests use this package.
package direct

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// Client returns a client whose requests a handler answers. Answers are streamed. Each request has a goroutine of its
// own, which ends with the handler.
func Client(h http.Handler) *http.Client { return &http.Client{Transport: transport{h}} }

type transport struct{ handler http.Handler }

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	in := r.Clone(ctx)
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1234"
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	out, write := io.Pipe()
	a := &answer{header: http.Header{}, body: write, begun: make(chan struct{})}
	context.AfterFunc(ctx, func() { _ = write.CloseWithError(context.Cause(ctx)) })
	go func() {
		t.handler.ServeHTTP(a, in)
		a.WriteHeader(http.StatusOK)
		_ = write.Close()
	}()
	select {
	case <-a.begun:
	case <-ctx.Done():
		cancel(ctx.Err())
		return nil, ctx.Err()
	}
	return &http.Response{
		StatusCode: a.code, Status: http.StatusText(a.code), Header: a.sent, Body: body{out, cancel}, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
	}, nil
}

// body ends the handler's context when it is closed, as the end of a connection does.
type body struct {
	io.Reader

	cancel context.CancelCauseFunc
}

func (b body) Close() error {
	b.cancel(io.ErrClosedPipe)
	return nil
}

// answer is what the handler writes. It is used by one goroutine at a time.
type answer struct {
	header http.Header
	body   *io.PipeWriter

	once  sync.Once
	code  int
	sent  http.Header // as it was when the answer began
	begun chan struct{}
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	a.once.Do(func() {
		a.code, a.sent = code, a.header.Clone()
		close(a.begun)
	})
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush implements [http.Flusher]: nothing is kept back.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }
