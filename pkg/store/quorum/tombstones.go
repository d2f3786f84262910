package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

// tombstoneKept is how long a tombstone stands at least. A write that was not answered for so long is not repeated.
const tombstoneKept = time.Hour

// Tombstones are looked for by every replica at this interval, up to twice as long.
const removeEvery = 10 * time.Minute

// maxRemoved is how many tombstones of a kind are removed at once.
const maxRemoved = 100

// removeRegularly removes tombstones until ctx ends. What fails is tried the next time.
func (s *Store) removeRegularly(ctx context.Context) {
	for clock.Sleep(ctx, removeEvery+rand.N(removeEvery)) == nil { //nolint:gosec // no secret
		for _, kind := range driver.Kinds() {
			if _, err := s.removeTombstones(ctx, kind); err != nil {
				s.members.log.V(1).Info("Tombstones stay", "document", string(kind), "error", err.Error())
			}
		}
	}
}

// removeTombstones removes those of a kind that have expired, where all servers hold them.
func (s *Store) removeTombstones(ctx context.Context, kind driver.Kind) (removed int, err error) {
	ctx, release := s.members.life.Bound(ctx)
	defer release()
	if err := newView(s, kind).read(ctx, nil); err != nil { // for the time
		return 0, err
	}
	own := s.members.all[rand.IntN(len(s.members.all))] //nolint:gosec // no secret
	client, _, err := own.serving()
	if err != nil {
		return 0, err
	}
	expired := driver.Query{Expired: s.clock.now(nil), States: []string{deleted}, Limit: maxRemoved, NoBody: true}
	found, err := client.List(ctx, kind, expired)
	if err != nil || len(found.Docs) == 0 {
		return 0, err
	}
	ids := make([]string, len(found.Docs))
	for i, d := range found.Docs {
		ids[i] = d.ID
	}
	seen := make([]snapshot, len(s.members.all))
	for i, at := range s.members.all { // all of them: with a majority the record of another could come back to life
		if seen[i], err = at.look(ctx, kind, ids); err != nil {
			return 0, fmt.Errorf("server %d: %w", i+1, err)
		}
	}
	removable, floor := removable(ids, seen, expired.Expired)
	if len(removable) < len(ids) { // some server is behind, or an earlier removal was cut off: the next time they agree
		differ := slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(removable, id) })
		if err := newView(s, kind).settle(ctx, differ); err != nil {
			return 0, err
		}
	}
	if len(removable) == 0 {
		return 0, nil
	}
	for i, at := range s.members.all {
		if err := at.raiseFloor(ctx, kind, floor, s.members.nonce); err != nil {
			return 0, fmt.Errorf("server %d: %w", i+1, err)
		}
	}
	var errs []error
	for i, at := range s.members.all {
		errs = append(errs, at.drop(ctx, kind, removable, seen[i], s.members.nonce))
	}
	return len(removable), join(errs...)
}

// removable are the tombstones that all servers show alike, and the floor that has to be raised before.
func removable(ids []string, seen []snapshot, now int64) (all []string, floor int64) {
	for _, id := range ids {
		r := ballot.Remove[ballot.Value](len(seen))
		for i := range seen {
			one := seen[i].records[id]
			v := one.Accepted.Value
			r.Shown(i, one.acceptor, v.Is == ballot.Deleted && v.Doc.Expires <= now)
		}
		if f, ok := r.Floor(); ok {
			all, floor = append(all, id), max(floor, f)
		}
	}
	return all, floor
}

// raiseFloor makes a server refuse ballots up to floor for documents of which it keeps nothing.
func (s *server) raiseFloor(ctx context.Context, kind driver.Kind, floor int64, nonce func() int64) error {
	for range maxTries {
		client, _, err := s.serving()
		if err != nil {
			return err
		}
		seen, err := s.look(ctx, kind, nil)
		if err != nil || seen.meta.Floor >= floor {
			return err
		}
		m, rev := seen.meta, seen.Docs[0].Rev // nothing else was asked for
		m.Floor = floor
		outs, err := client.Apply(ctx, driver.Change{IfRev: rev, Doc: m.document(kind, rev+1, nonce())})
		switch {
		case err != nil:
			return err
		case outs[0].Status == driver.Unknown:
			return outs[0].Err
		}
	}
	return errFought
}

// drop deletes records that are still as they were shown.
func (s *server) drop(
	ctx context.Context, kind driver.Kind, ids []string, seen snapshot, nonce func() int64,
) error {
	client, _, err := s.serving()
	if err != nil {
		return err
	}
	changes := make([]driver.Change, len(ids))
	for i, id := range ids {
		changes[i] = driver.Change{Op: driver.Delete, IfRev: seen.records[id].rev, Doc: driver.Doc{
			Kind: kind, ID: id, WriterID: driver.WriterID{Session: "quorum", Seq: nonce()},
		}}
		s.forget(key{kind, id})
	}
	_, err = client.Apply(ctx, changes...)
	return err
}
