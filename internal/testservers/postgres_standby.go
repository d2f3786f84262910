//go:build unix

package testservers

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// standbyName is what a standby calls itself at its primary.
const standbyName = "standby"

// promoteSeconds bounds a promotion.
const promoteSeconds = "60"

// PostgresPair is a primary and its synchronous standby. The primary confirms no write that the standby has not written
// to disk. It waits for the standby for as long as that takes.
type PostgresPair struct {
	Primary, Standby *Server
	tb               testing.TB
}

// StartPostgresPair starts a pair that ends with the test. Config lines are for both.
func StartPostgresPair(tb testing.TB, config ...string) *PostgresPair {
	tb.Helper()
	pair := testprocess.Fresh(tb, family, string(KindPostgres),
		func(ctx context.Context, dir string) (*servers, error) {
			return openPostgresPair(ctx, dir, config)
		})
	return &PostgresPair{Primary: use(tb, pair.all[0]), Standby: use(tb, pair.all[1]), tb: tb}
}

func openPostgresPair(ctx context.Context, dir string, config []string) (*servers, error) {
	pair := &servers{}
	options := testprocess.Options{Config: config}
	primary, err := pair.add(family.Open(ctx, string(KindPostgres), &postgres{}, filepath.Join(dir, "primary"),
		options))
	if err != nil {
		return nil, err
	}
	_, err = pair.add(family.Open(ctx, string(KindPostgres), &postgres{upstream: primary.Addr()},
		filepath.Join(dir, "standby"), options))
	if err != nil {
		return nil, err
	}
	err = postgresExec(ctx, primary, "ALTER SYSTEM SET synchronous_standby_names = '"+standbyName+"'",
		"SELECT pg_reload_conf()")
	if err == nil {
		err = waitSynchronous(ctx, primary)
	}
	if err != nil {
		pair.Close()
		return nil, err
	}
	return pair, nil
}

// waitSynchronous waits until a write on the primary waits for the standby.
func waitSynchronous(ctx context.Context, primary *testprocess.Server) error {
	const wait = `DO $$ BEGIN FOR i IN 1..2000 LOOP
		IF EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync') THEN RETURN; END IF;
		PERFORM pg_sleep(0.01);
		PERFORM pg_stat_clear_snapshot();
	END LOOP; RAISE 'the standby is not synchronous'; END $$`
	return postgresExec(ctx, primary, wait)
}

// Promote makes the standby a primary of its own, and returns once it takes writes. The old primary is to be killed
// before, or it would take writes too, though confirm none.
func (p *PostgresPair) Promote() {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.tb.Context()), 2*time.Minute)
	defer cancel()
	err := postgresExec(ctx, p.Standby.Server(),
		"DO $$ BEGIN IF NOT pg_promote(true, "+promoteSeconds+") THEN RAISE 'not promoted'; END IF; END $$")
	if err != nil {
		p.tb.Fatal(err)
	}
}
