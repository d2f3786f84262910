package quorumstore

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect/internal/quorum"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// readIdentity reads what a server says of itself; nil where one kind's document is missing.
func readIdentity(ctx context.Context, s store.Store) (*quorum.Identity, error) {
	var all *quorum.Identity
	missing := false
	for _, kind := range store.Kinds() {
		reply, err := s.Read(ctx, kind, metaID)
		if err != nil {
			return nil, err
		}
		if len(reply.Docs) == 0 {
			missing = true
			continue
		}
		m, err := parseMeta(reply.Docs[0])
		if err != nil {
			return nil, err
		}
		id := m.identity()
		if all != nil {
			id.Confirmed = id.Confirmed && all.Confirmed
		}
		all = &id
	}
	if missing {
		return nil, nil //nolint:nilnil // absence is an answer
	}
	return all, nil
}

// createIdentity gives a server its identity. It replaces none: whoever was first with the first kind has decided the
// incarnation, and a slow process must not take back what others have confirmed.
func createIdentity(ctx context.Context, s store.Store, id quorum.Identity, nonce func() int64) error {
	return changeIdentity(ctx, s, nonce, func(was *meta) (meta, error) {
		if was == nil {
			return metaOf(id), nil
		}
		id.Incarnation = was.Incarnation
		return *was, nil
	})
}

// confirmIdentity confirms what a server has. It makes none: the disk may have been lost since it was looked at.
func confirmIdentity(ctx context.Context, s store.Store, id quorum.Identity, nonce func() int64) error {
	return changeIdentity(ctx, s, nonce, func(was *meta) (meta, error) {
		if was == nil {
			return meta{}, errLost
		}
		next := *was
		next.Confirmed = true
		return next, quorum.Mismatch(id, was.identity())
	})
}

// restoreIdentity gives a re-admitted server its identity again. An earlier try may have begun to.
func restoreIdentity(
	ctx context.Context, s store.Store, id quorum.Identity, floor int64, nonce func() int64,
) error {
	return changeIdentity(ctx, s, nonce, func(was *meta) (meta, error) {
		next := metaOf(id)
		next.Floor = floor
		if was == nil {
			return next, nil
		}
		next.Floor = max(floor, was.Floor)
		return next, quorum.Mismatch(id, was.identity())
	})
}

// changeIdentity writes each kind's document where it is to differ from what is there. nil: there is none.
func changeIdentity(
	ctx context.Context, s store.Store, nonce func() int64, change func(was *meta) (meta, error),
) error {
	for _, kind := range store.Kinds() {
		reply, err := s.Read(ctx, kind, metaID)
		if err != nil {
			return err
		}
		var was *meta
		var c store.Change
		rev := max(reply.Floor, 1)
		if len(reply.Docs) > 0 {
			found, err := parseMeta(reply.Docs[0])
			if err != nil {
				return err
			}
			was, c.IfRev = &found, reply.Docs[0].Rev
			rev = max(rev, c.IfRev+1)
		}
		next, err := change(was)
		if err != nil {
			return err
		}
		if was != nil && next == *was {
			continue
		}
		c.Doc = next.document(kind, rev, nonce())
		outs, err := s.Apply(ctx, c)
		switch {
		case err != nil:
			return err
		case outs[0].Status == store.Unknown:
			return outs[0].Err
		case outs[0].Status != store.Applied:
			return errFought
		}
	}
	return nil
}
