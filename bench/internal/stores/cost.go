//go:build linux

package stores

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// cost is processor time: of the server's processes, and of this one, where its clients are.
type cost struct{ server, client time.Duration }

func (c cost) sum() time.Duration { return c.server + c.client }

// over is the share of one of n.
func (c cost) over(n float64) cost {
	return cost{time.Duration(float64(c.server) / n), time.Duration(float64(c.client) / n)}
}

// meter is how much was used when it began.
type meter struct {
	s      *server
	at     time.Time
	before cost
}

func (s *server) meter() (*meter, error) {
	used, err := s.used()
	return &meter{s: s, at: time.Now(), before: used}, err
}

// used is how much the server and this process have used so far.
func (s *server) used() (c cost, err error) {
	if c.server, err = usage(s.pids); err != nil {
		return c, err
	}
	c.client, err = own()
	return c, err
}

// spent is how much was used since, less what the server uses without clients.
func (m *meter) spent() (cost, error) {
	after, err := m.s.used()
	background := time.Duration(float64(time.Since(m.at)) * m.s.background)
	return cost{
		server: max(0, after.server-m.before.server-background), client: after.client - m.before.client,
	}, err
}

// measureBackground looks at a server that no one uses.
func (s *server) measureBackground(ctx context.Context, window time.Duration) error {
	m, err := s.meter()
	if err != nil {
		return err
	}
	if err := lab.Pause(ctx, window); err != nil {
		return err
	}
	spent, err := m.spent()
	s.background = spent.server.Seconds() / time.Since(m.at).Seconds()
	return err
}
