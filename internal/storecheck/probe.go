package storecheck

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// ended is a second state that a session of a check has, so that its state changes. Replicas read it as no state.
const ended = "checked"

// probe writes a member and a session of its own, under one ID that is used once. A member without a living session
// owns nothing, and a session that is not live is not looked at.
type probe struct {
	db   store.Store
	id   string
	revs map[store.Kind]int64
	ids  record.WriterIDs
}

func newProbe(db store.Store) *probe {
	id := uuid.NewString()
	return &probe{db: db, id: id, revs: map[store.Kind]int64{}, ids: record.WriterIDs{Session: id}}
}

// lifetime is when what a killed check left is removed, by those who clean up.
const lifetime = time.Hour

// write writes the document again.
func (p *probe) write(ctx context.Context, kind store.Kind, state string) error {
	rev := p.revs[kind]
	d := store.Doc{
		Kind: kind, ID: p.id, Rev: rev + 1, WriterID: p.ids.Next(), State: state,
		Expires: time.Now().Add(lifetime).UnixMilli(),
	}
	if kind == store.KindSession {
		d.Body = []byte(`{"cause":"it was a check of the store","left":true}`)
	} else {
		d.Body = []byte(`{"instance":"check"}`)
	}
	outs, err := p.db.Apply(ctx, store.Change{IfRev: rev, Doc: d})
	switch {
	case err != nil:
		return err
	case outs[0].Status != store.Applied:
		return fmt.Errorf("%s %s: not written: %w", kind, p.id, causeOf(outs[0]))
	}
	p.revs[kind] = d.Rev
	return nil
}

func causeOf(out store.Outcome) error {
	if out.Err != nil {
		return out.Err
	}
	return fmt.Errorf("%w: somebody else wrote it", store.ErrInvalid)
}

// cleanUp removes what was written.
func (p *probe) cleanUp(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for kind, rev := range p.revs {
		d := store.Doc{Kind: kind, ID: p.id, WriterID: p.ids.Next()}
		outs, err := p.db.Apply(ctx, store.Change{Op: store.Delete, IfRev: rev, Doc: d})
		if err == nil && outs[0].Status == store.Unknown {
			err = outs[0].Err
		}
		if err != nil {
			return fmt.Errorf("remove %s %s, which the check wrote: %w", kind, p.id, err)
		}
	}
	return nil
}
