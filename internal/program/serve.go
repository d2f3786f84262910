package program

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/admin"
	"github.com/shardctl/shardctl/internal/application"
	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/route"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/internal/web"
)

// peerTimeout is how long another replica may take to answer for its tasks' output.
const peerTimeout = 5 * time.Second

// serve opens the listeners, and serves them until ctx ends. An address in use is waited for until part ends.
func (w *workerProcess) serve(ctx, part context.Context, group *errgroup.Group) error {
	log := w.log.WithName("server")
	server := w.settings.Server.TLS
	peers, err := peerClient(server, log)
	if err != nil {
		return usage("server.tls.caFile: %w", err)
	}
	guard, err := w.guardListeners(log)
	if err != nil {
		return err
	}
	shown := status.Showing(w.replica, w.metrics, log)
	shown.Peers, shown.PeerScheme, shown.Vouch = peers, scheme(server), guard.Vouch
	read := status.New(shown)
	readOnly := guard.ReadOnly(guard.Output(read, w.settings.ShowsOutput()))
	if w.settings.Server.Route {
		readOnly = route.Over(readOnly, guard.CheckHost(route.New(route.Config{
			Source: shown.Source, Known: guard.Known, Done: w.metrics.Routed,
		})))
	}
	for _, l := range []struct {
		field, address string
		tls            settings.TLS
		handler        http.Handler
		limit          web.Connections
	}{
		{"server.listen", w.settings.Server.Listen, server, readOnly, web.ServerConnections()},
		{"admin.listen", w.settings.Admin.Listen, w.settings.Admin.TLS, admin.New(admin.Config{
			Read: read, Source: shown.Source, Changer: w.replica, Guard: guard, Logger: log,
		}), web.AdminConnections()},
	} {
		if l.address == "" {
			continue
		}
		listener, err := w.listen(part, l.field, l.address, func(ctx context.Context) (net.Listener, error) {
			return listen(ctx, l.address, l.tls, log)
		})
		if err != nil {
			return err
		}
		group.Go(func() error { return web.Serve(ctx, listener, l.handler, l.limit, time.Second, log) })
	}
	return w.serveApplication(ctx, part, group, log)
}

// serveApplication opens the listener for the application beside this replica, where there is one.
func (w *workerProcess) serveApplication(
	ctx, part context.Context, group *errgroup.Group, log logr.Logger,
) error {
	address := w.settings.App.Listen
	if address == "" {
		return nil
	}
	listener, err := w.listen(part, "app.listen", address, func(ctx context.Context) (net.Listener, error) {
		return application.Listen(ctx, address)
	})
	if err != nil {
		return err
	}
	group.Go(func() error {
		return web.Serve(
			ctx, listener, application.Handler(w.replica), web.ApplicationConnections(), time.Second, log,
		)
	})
	return nil
}

// guardListeners decides who may ask for what on both listeners.
func (w *workerProcess) guardListeners(log logr.Logger) (*admin.Guard, error) {
	server := w.settings.Server
	guard := &admin.Guard{
		Hosts: access.ListenerHosts(server.Hosts, server.Advertise), Instance: w.settings.Instance,
	}
	if path := w.settings.Admin.TokensFile; path != "" {
		tokens, err := access.LoadTokens(path, log)
		if err != nil {
			return nil, usage("admin.tokensFile: %w", err)
		}
		guard.Tokens = tokens
	}
	return guard, nil
}

func scheme(t settings.TLS) string {
	if t.Enabled() {
		return "https"
	}
	return "http"
}

// peerClient asks other replicas, whose certificates are signed as this one's is: often by an authority of one's own.
func peerClient(t settings.TLS, log logr.Logger) (*http.Client, error) {
	client := &http.Client{Timeout: peerTimeout}
	if t.CAFile == "" {
		return client, nil
	}
	transport, err := access.Transport(t.CAFile, log)
	client.Transport = transport
	return client, err
}

// listen listens at the address of a field. Another process may have it for a moment longer: the one before this, or a
// client that was given the port for a connection of its own.
func (w *workerProcess) listen(
	ctx context.Context, field, address string, open func(context.Context) (net.Listener, error),
) (net.Listener, error) {
	listener, err := awaitAddress(ctx, open, func(err error) {
		w.log.Info(
			"The address cannot be had yet: trying again", "listener", field, "address", address, "error", err.Error(),
			"duration", addressPatience,
		)
	})
	switch {
	case err == nil:
		w.log.Info("Listening", "listener", field, "address", listener.Addr().String())
		return listener, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: %w; it was waited for %v", field, err, addressPatience) // it may be free later
	default:
		return nil, usage("%s: %w", field, err)
	}
}

const (
	addressPatience = 30 * time.Second // at the start
	addressPause    = 250 * time.Millisecond
)

// awaitAddress opens a listener. While its address is in use, or this machine does not have it yet, it tries again for
// [addressPatience], after one call of waiting. The end of ctx is an error.
func awaitAddress(
	ctx context.Context, open func(context.Context) (net.Listener, error), waiting func(error),
) (net.Listener, error) {
	for end := time.Now().Add(addressPatience); ; {
		listener, err := open(ctx)
		passing := errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
		if !passing || time.Now().After(end) {
			return listener, err
		}
		if waiting != nil {
			waiting(err)
			waiting = nil
		}
		if err := clock.Sleep(ctx, addressPause); err != nil {
			return nil, err
		}
	}
}

func listen(ctx context.Context, address string, t settings.TLS, log logr.Logger) (net.Listener, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil || !t.Enabled() {
		return listener, err
	}
	settings, err := access.ServerTLS(t.CertFile, t.KeyFile, log)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return tls.NewListener(listener, settings), nil
}
