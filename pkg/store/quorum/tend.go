package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Pauses between looks at a server that does not count.
const (
	firstTend = 20 * time.Millisecond
	lastTend  = 2 * time.Second
)

// tender keeps one server connected, and has it count when its identity allows that.
type tender struct {
	members *members
	server  *server
}

// run ends with ctx.
func (t *tender) run(ctx context.Context) {
	wait := firstTend
	for ctx.Err() == nil {
		err := t.admit(ctx)
		if err == nil {
			wait = firstTend
			t.members.found.served()
			dbstore.KeepLooking(ctx, t.server.failed, t.server.leave, t.inspect)
			continue
		}
		t.server.mu.Lock()
		t.server.trouble = err
		t.server.mu.Unlock()
		t.members.log.V(1).Info("A server of the quorum does not count", "store", t.server.spec.Name, "error",
			err.Error())
		_ = clock.Sleep(ctx, wait) // the loop looks at ctx
		wait = min(2*wait, lastTend)
	}
}

// inspect doubts a server that may forget what it acknowledged: its client is opened again, which fails as long as that
// is so. The error says that the server did not answer.
func (t *tender) inspect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	client, _, err := t.server.serving()
	if err != nil {
		return err
	}
	found, err := store.Inspect(ctx, client)
	if err != nil {
		return err
	}
	for _, s := range found.Settings {
		if s.Forgets && !s.Holds {
			why := fmt.Errorf("%w: %s is %s, want %s", errForgets, s.Name, s.Value, s.Want)
			t.members.log.Info("A server of the quorum does not count", "store", t.server.spec.Name, "error", why.Error())
			t.server.doubt(why, true)
			return nil
		}
	}
	return nil
}

// admit connects the server and looks at its identity. Nil: it counts. Else the error says why not.
func (t *tender) admit(ctx context.Context) error {
	var id *ballot.Identity
	opening, opened := context.WithTimeout(ctx, dbstore.Limit(t.members.timeout))
	defer opened()
	client, err := t.connect(opening)
	if err == nil {
		reading, read := context.WithTimeout(ctx, t.timeout())
		defer read()
		var lineage string
		id, lineage, err = readIdentity(reading, client)
		t.server.mu.Lock()
		t.server.lineage = lineage
		t.server.mu.Unlock()
	}
	if errors.Is(err, driver.ErrOther) {
		t.server.doubt(err, true)
	}
	standing, want := t.members.found.set(t.server.index, ballot.Found{Reached: err == nil, ID: id}, err)
	switch standing {
	case ballot.Unreached:
		return err
	case ballot.Counts:
		t.serve(*id)
		return nil
	case ballot.Foreign:
		return fmt.Errorf("%w: it belongs to another quorum: %w", driver.ErrInvalid, ballot.Mismatch(want, *id))
	default:
		return notCounted[standing]
	}
}

// notCounted says why a server of a standing does not count.
var notCounted = map[ballot.Standing]error{
	ballot.Unset: errNotSetUp, ballot.Lost: fmt.Errorf("%w: re-admit it", errLost), ballot.Waits: errFew,
}

func (t *tender) timeout() time.Duration { return max(t.members.timeout, time.Second) }

// connect opens the client once, and again where its server was restarted: what may forget is refused each time.
func (t *tender) connect(ctx context.Context) (driver.Store, error) {
	t.server.mu.Lock()
	old, reopen := t.server.client, t.server.reopen
	t.server.mu.Unlock()
	if old != nil && !reopen {
		return old, nil
	}
	client, err := t.server.spec.Open(ctx)
	if err != nil {
		return nil, err
	}
	if err := fit(client); err != nil {
		return nil, join(err, client.Close(context.WithoutCancel(ctx)))
	}
	t.server.mu.Lock()
	t.server.client, t.server.reopen = client, false
	t.server.mu.Unlock()
	if old != nil {
		_ = old.Close(context.WithoutCancel(ctx)) // what is under way on it counts for nothing any more
	}
	return client, nil
}

func (t *tender) serve(id ballot.Identity) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.server.id, t.server.counts, t.server.trouble = id, true, nil
	select { // what was doubted before this look is settled
	case <-t.server.leave:
	default:
	}
}

// forgetful are the problems of stores that may forget what they acknowledged, or that could not be looked at.
var forgetful = []string{
	"StoreNotDurable", "StoreNotReplicated", "StoreReplicaLags", "StoreSeveralNodes", "StoreEviction", "StoreClosed",
	"StoreUnchecked",
}

var errForgets = fmt.Errorf("%w: it may forget what it acknowledged, and cannot be part of a quorum", driver.ErrInvalid)

// fit refuses a store that may forget what it acknowledged.
func fit(s driver.Store) error {
	for _, p := range store.Problems(s) {
		if slices.Contains(forgetful, p.Reason) {
			return fmt.Errorf("%w: %s: %s", errForgets, p.Reason, p.Message)
		}
	}
	return nil
}

var errFew = fmt.Errorf("%w: no majority of servers has shown one identity yet", driver.ErrUnavailable)

var errNotSetUp = fmt.Errorf("%w: the quorum was not set up: run shardctl store init", driver.ErrUnavailable)
