//go:build unix

package testbroker

import (
	"context"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// ErrExited says that a broker's process ended by itself while it started.
var ErrExited = testprocess.ErrExited

// Options are for [Open]. The zero value is a broker as tests want it.
type Options struct {
	// Config are lines that follow ours in the broker's own configuration file: server.properties, rabbitmq.conf,
	// mosquitto.conf, redis.conf, nats.conf.
	Config []string
}

// Server is a broker, running or not. Its methods may be called concurrently.
type Server struct {
	*testprocess.Server
	kind Kind
}

// Open starts a broker that keeps its data in dir, which is made when missing, and returns once it serves clients. On
// a quiet machine that takes up to ten seconds. ctx bounds the start only. Call Close at the end; dir stays.
func Open(ctx context.Context, kind Kind, dir string, opts Options) (*Server, error) {
	s, err := newSoftware(kind)
	if err != nil {
		return nil, err
	}
	return openAs(ctx, kind, s, dir, opts)
}

func openAs(ctx context.Context, kind Kind, s testprocess.Software, dir string, opts Options) (*Server, error) {
	server, err := family.Open(ctx, string(kind), s, dir, testprocess.Options{Config: opts.Config})
	if err != nil {
		return nil, err
	}
	return &Server{Server: server, kind: kind}, nil
}

// Kind is the broker's.
func (b *Server) Kind() Kind { return b.kind }
