package zkstore

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// List answers from the process's cache of the kind, after one request has told that it is as new as the server at
// hand. Documents that changed since are read first. The first List of a kind reads all of them, one request each.
func (s *Store) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, fmt.Errorf("list: %w", err)
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	m := s.caches[kind]
	if err := m.refresh(ctx); err != nil {
		return store.Reply{}, s.translate("list "+string(kind), err)
	}
	return s.reply(m.find(q)), nil
}
