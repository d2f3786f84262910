//go:build linux

package peers

import (
	"context"
	"database/sql"
	"time"

	"cirello.io/pglock"
	_ "github.com/lib/pq" // the driver that pglock asks for
)

// pgLocks are locks of pglock, which renews them itself. Its defaults are 20 s and a heartbeat every quarter of that.
type pgLocks struct{ client *pglock.Client }

func openPglock(_ context.Context, t target) (locks, error) {
	db, err := sql.Open("postgres", t.uri)
	if err != nil {
		return nil, err
	}
	client, err := pglock.New(db, pglock.WithLeaseDuration(t.lease), pglock.WithHeartbeatFrequency(t.lease/4),
		pglock.WithOwner(t.name))
	if err != nil {
		return nil, err
	}
	return &pgLocks{client}, createPglock(client)
}

// createPglock makes the table. Of several holders that begin at once one may find it half made.
func createPglock(client *pglock.Client) (err error) {
	for range 5 {
		if err = client.TryCreateTable(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// acquire uses Do: its context is how a holder is told.
//
//nolint:contextcheck // the context of Do is its own
func (l *pgLocks) acquire(ctx context.Context, key string) (held, error) {
	began, release, done := make(chan context.Context, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- l.client.Do(ctx, key, func(ctx context.Context, _ *pglock.Lock) error {
			began <- ctx
			<-release
			return nil
		})
	}()
	select {
	case run := <-began:
		return held{
			lost: func() bool { return run.Err() != nil },
			release: func(context.Context) error {
				close(release)
				return <-done
			},
		}, nil
	case err := <-done:
		return held{}, err
	}
}
