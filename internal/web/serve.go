package web

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
)

// errClosing is why streams end when the server does.
var errClosing = errors.New("the server is closing")

type closingKey struct{}

// AnswerTimeout is how long an answer that is no stream may take as a whole, however steadily its reader reads.
const AnswerTimeout = 60 * time.Second

// maxHeader is how large the head of a request may be, in bytes. A watch keeps it as long as it goes on.
const maxHeader = 32 << 10

// Serve answers requests on the listener, over at most so many connections, until ctx ends; then it ends streams, lets
// the rest finish for up to grace, and returns nil. It closes the listener. For TLS the listener is one of package tls.
func Serve(
	ctx context.Context, listener net.Listener, handler http.Handler, limit Connections, grace time.Duration,
	logger logr.Logger,
) error {
	closing, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      AnswerTimeout, // streams set a deadline for each chunk
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ConnState:         newConnections(limit, logger).changed,

		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.WithoutCancel(ctx), closingKey{}, closing)
		},
		ErrorLog: log.New(logWriter{logger}, "", 0),
	}
	srv.RegisterOnShutdown(func() { end(errClosing) })

	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := srv.Shutdown(limited); err != nil {
		_ = srv.Close() // what did not finish in time is cut off: the replica is leaving
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}

// UntilClosing is ctx, ended also when the server that serves it shuts down.
func UntilClosing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	closing, ok := ctx.Value(closingKey{}).(context.Context)
	if !ok {
		return ctx, func() { cancel(nil) }
	}
	stop := context.AfterFunc(closing, func() { cancel(context.Cause(closing)) })
	return ctx, func() { stop(); cancel(nil) }
}

// logWriter takes what net/http has to say, mostly of connections that went away.
type logWriter struct{ logger logr.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.logger.V(1).Info("The status server had trouble with a connection", "error", strings.TrimSpace(string(p)))
	return len(p), nil
}

// Shielded sets what every answer carries and turns a panic into an answer, so that one request never takes the
// replica down.
func Shielded(next http.Handler, logger logr.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		h.Set("Vary", "Accept-Encoding, Authorization")
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // the very value is what net/http asks for
				panic(v)
			}
			logger.Error(fmt.Errorf("panic: %v", v), "A request could not be answered", "path", r.URL.Path)
			NewError(
				http.StatusInternalServerError, "Internal", "this request could not be answered; see the log",
			).Write(w)
		}()
		next.ServeHTTP(w, r)
	})
}
