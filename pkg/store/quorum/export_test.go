package quorum

import (
	"context"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

// RemoveTombstones removes now what replicas remove every few minutes.
func (s *Store) RemoveTombstones(ctx context.Context, kind driver.Kind) (int, error) {
	return s.removeTombstones(ctx, kind)
}

// Reserve reserves a server for the set-up of this name.
func Reserve(ctx context.Context, s driver.Store, by string) error {
	return reserve(ctx, s, identity(by), func() int64 { return 1 })
}

// Confirm confirms what it has reserved.
func Confirm(ctx context.Context, s driver.Store, by string) error {
	return confirm(ctx, s, identity(by), func() int64 { return 2 })
}

func identity(by string) ballot.Identity { return ballot.Identity{Incarnation: by, By: by} }

// Fail is as if a call of each server had failed.
func (s *Store) Fail() {
	for _, at := range s.members.all {
		at.fail(nil)
	}
}

// KeepDocLocks has the store remember so many documents only.
func (s *Store) KeepDocLocks(n int) { s.proposer.docLocks.max = n }

// ReadIdentity is what a server says of itself; empty: it has no identity.
func ReadIdentity(ctx context.Context, s driver.Store) (incarnation string, confirmed bool, err error) {
	id, _, err := readIdentity(ctx, s)
	if id == nil {
		return "", false, err
	}
	return id.Incarnation, id.Confirmed, err
}

// Split takes the URIs of servers apart.
var Split = split

// Place is what distinguishes servers.
var Place = place

// EmptyRecord creates what a replica leaves on a server before it notices that the disk is lost.
func EmptyRecord(kind driver.Kind, id string) driver.Change {
	return driver.Change{Doc: record{fresh: true}.document(key{kind, id}, 0, 1)}
}

// RenewPart renews the URI of one of n servers.
var RenewPart = renewPart
