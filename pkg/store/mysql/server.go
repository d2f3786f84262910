package mysql

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// server is the database that a store is in. It implements [sqlstore.Server].
type server struct {
	dialect
	*calls

	poll     time.Duration
	problems []store.Problem
}

var _ sqlstore.Server = (*server)(nil)

// Problems implements [sqlstore.Server].
func (s *server) Problems() []store.Problem { return s.problems }

// Inspect implements [sqlstore.Server].
func (s *server) Inspect(ctx context.Context) (store.Inspection, error) {
	f, err := s.facts(ctx)
	if err != nil {
		return store.Inspection{}, err
	}
	found := store.Inspection{Server: f.server()}
	for _, j := range f.settings() {
		found.Settings = append(found.Settings, j.Setting)
	}
	return found, nil
}

// Signal implements [sqlstore.Server]: the server sends nothing by itself, so the log is looked into all the time.
func (s *server) Signal(context.Context, string) (sqlstore.Signal, error) {
	return ticks{time.NewTicker(s.poll)}, nil
}

// look refuses a server that cannot keep the promises, and notes what an operator should know.
func (s *server) look(ctx context.Context) error {
	f, err := s.facts(ctx)
	if err != nil {
		return err
	}
	if err := f.refuse(); err != nil {
		return err
	}
	s.problems = f.problems()
	// Half of what the server takes: the rest is for what the driver adds, and for a body that is escaped.
	s.textSize = min(maxText, int(f.number("max_allowed_packet")/2))
	return nil
}
