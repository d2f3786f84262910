package subscribe

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/internal/sleep"
)

const (
	// steady is how long a subscription must have been open for the pause after its end to be short again.
	steady = time.Minute
	// restless is how many times an open subscription breaks, none of them steady, until that is trouble of its own.
	// Else two clients that take a session from each other would each be well whenever it is looked at.
	restless = 3
)

// breaks are the ends of a subscription that had been opened.
type breaks struct {
	count int   // without a steady one between
	last  error // why
}

// ended notes why a subscription that was open has ended.
func (b *breaks) ended(after time.Duration, err error) {
	if after >= steady {
		b.count = 0
	}
	b.count++
	b.last = err
}

// opened says that the subscription is open. One that keeps breaking is in trouble until it has been open for long.
func (s *run) opened() {
	if s.breaks.count >= restless {
		s.health.connection(fmt.Errorf("%s: keeps breaking soon after it is opened: %w", s.title, s.breaks.last))
		return
	}
	if s.health.connection(nil) {
		s.env.Log.Info("The subscription is open again", "token", s.env.Start.Token)
	}
}

// settle takes back what opened has said of breaks once the subscription has been open for long. It returns when ctx
// has ended.
func (s *run) settle(ctx context.Context) {
	if s.breaks.count < restless {
		return
	}
	if _ = sleep.For(ctx, steady); ctx.Err() == nil {
		s.breaks.count = 0
		s.opened()
	}
}
