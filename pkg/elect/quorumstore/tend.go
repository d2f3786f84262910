package quorumstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/quorum"
	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/pkg/internal/sleep"
)

// Pauses between looks at a server that does not count.
const (
	firstTend = 20 * time.Millisecond
	lastTend  = 2 * time.Second
)

// tender keeps one server connected, and admits it when its identity allows that.
type tender struct {
	store    *Store
	server   *server
	existing bool
}

// run ends with ctx.
func (t *tender) run(ctx context.Context) {
	wait := firstTend
	for ctx.Err() == nil {
		serves, err := t.admit(ctx)
		if serves {
			wait = firstTend
			t.store.found.served()
			select {
			case <-t.server.leave:
			case <-ctx.Done():
			}
			continue
		}
		if err != nil {
			t.server.mu.Lock()
			t.server.trouble = err
			t.server.mu.Unlock()
			t.store.log.V(1).Info("A server of the quorum does not count", "store", t.server.spec.Name, "error", err.Error())
		}
		_ = sleep.For(ctx, wait) // the loop looks at ctx
		wait = min(2*wait, lastTend)
		if err == nil {
			wait = firstTend
		}
	}
}

// admit does the next thing with the server: connects, looks at its identity, writes or confirms it. serves: it counts.
// Without an error the next look may be soon.
func (t *tender) admit(ctx context.Context) (serves bool, err error) {
	own, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	client, err := t.connect(own)
	if err != nil {
		t.store.found.set(t.server.index, quorum.Found{}, err)
		return false, err
	}
	id, err := readIdentity(own, client)
	if err != nil {
		t.store.found.set(t.server.index, quorum.Found{}, err)
		return false, err
	}
	standing, made := t.store.found.set(t.server.index, quorum.Found{Reached: true, ID: id}, nil)
	want := t.store.want
	want.Index, want.Incarnation = t.server.index, made
	switch standing {
	case quorum.Counts:
		t.serve(*id)
		return true, nil
	case quorum.Unset, quorum.Confirm:
		if t.existing {
			return false, fmt.Errorf("%w: the quorum was not set up", store.ErrUnavailable)
		}
		if standing == quorum.Confirm {
			return false, confirmIdentity(own, client, want, t.store.nonce)
		}
		return false, createIdentity(own, client, want, t.store.nonce)
	case quorum.Lost:
		return false, fmt.Errorf("%w: re-admit it", errLost)
	case quorum.Foreign:
		return false, fmt.Errorf("%w: it belongs to another quorum: %w", store.ErrInvalid, quorum.Mismatch(want, *id))
	case quorum.Unreached, quorum.Waits:
	}
	return false, nil
}

func (t *tender) timeout() time.Duration { return max(t.store.timeout, time.Second) }

// connect opens the client once.
func (t *tender) connect(ctx context.Context) (store.Store, error) {
	t.server.mu.Lock()
	client := t.server.client
	t.server.mu.Unlock()
	if client != nil {
		return client, nil
	}
	client, err := t.server.spec.Open(ctx)
	if err != nil {
		return nil, err
	}
	if err := fit(client); err != nil {
		return nil, join(err, client.Close(context.WithoutCancel(ctx)))
	}
	t.server.mu.Lock()
	t.server.client = client
	t.server.mu.Unlock()
	return client, nil
}

func (t *tender) serve(id quorum.Identity) {
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

// fit refuses a store that may forget what it acknowledged.
func fit(s store.Store) error {
	for _, p := range store.Problems(s) {
		if slices.Contains(forgetful, p.Reason) {
			return fmt.Errorf("%w: it may forget what it acknowledged, and cannot be part of a quorum: %s: %s",
				store.ErrInvalid, p.Reason, p.Message)
		}
	}
	return nil
}
