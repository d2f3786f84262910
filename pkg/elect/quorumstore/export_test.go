package quorumstore

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect/internal/quorum"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// RemoveTombstones removes now what replicas remove every few minutes.
func (s *Store) RemoveTombstones(ctx context.Context, kind store.Kind) (int, error) {
	return s.removeTombstones(ctx, kind)
}

// CreateIdentity gives a server the first place of a quorum.
func CreateIdentity(ctx context.Context, s store.Store, incarnation string) error {
	return createIdentity(ctx, s, quorum.Identity{Incarnation: incarnation}, func() int64 { return 1 })
}

// ConfirmIdentity confirms it.
func ConfirmIdentity(ctx context.Context, s store.Store, incarnation string) error {
	return confirmIdentity(ctx, s, quorum.Identity{Incarnation: incarnation}, func() int64 { return 2 })
}

// ReadIdentity is what a server says of itself; empty: it has no identity.
func ReadIdentity(ctx context.Context, s store.Store) (incarnation string, confirmed bool, err error) {
	id, err := readIdentity(ctx, s)
	if id == nil {
		return "", false, err
	}
	return id.Incarnation, id.Confirmed, err
}

// Split takes the URIs of servers apart.
var Split = split

// Place is what tells servers apart.
var Place = place

// EmptyRecord creates what a replica leaves on a server before it notices that the disk is lost.
func EmptyRecord(kind store.Kind, id string) store.Change {
	return store.Change{Doc: record{fresh: true}.document(key{kind, id}, 0, 1)}
}
