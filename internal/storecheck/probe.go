package storecheck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// probe writes a member and a session of its own, under one ID that is used once. A member without a living session
// owns nothing, and a session that is dead is not looked at. Those who clean up remove dead sessions, and members with
// them: so the session is there for as long as the member is.
type probe struct {
	db    store.Store
	id    string
	revs  map[driver.Kind]int64 // written last
	there map[driver.Kind]bool
	ids   record.WriterIDs
}

func newProbe(db store.Store) *probe {
	id := uuid.NewString()
	return &probe{
		db: db, id: id, revs: map[driver.Kind]int64{}, there: map[driver.Kind]bool{},
		ids: record.WriterIDs{Session: id},
	}
}

// write writes the document again.
func (p *probe) write(ctx context.Context, kind driver.Kind) error {
	ifRev := int64(0)
	if p.there[kind] {
		ifRev = p.revs[kind]
	}
	rev := p.revs[kind] + 1 + p.revs[kind]%2 // odd, as revisions are at which a session is dead
	outs, err := p.db.Apply(ctx, driver.Change{IfRev: ifRev, Doc: p.doc(kind, rev)})
	switch {
	case err != nil:
		return err
	case outs[0].Status != driver.Applied:
		return fmt.Errorf("%s %s: not written: %w", kind, p.id, causeOf(outs[0]))
	}
	p.revs[kind], p.there[kind] = rev, true
	return nil
}

func (p *probe) doc(kind driver.Kind, rev int64) driver.Doc {
	if kind == driver.KindMember {
		return record.Member{Session: p.id, Rev: rev, Instance: "check"}.Doc(p.ids.Next())
	}
	return record.Session{
		ID: p.id, Rev: rev, WriterID: p.ids.Next(), State: record.Dead, Instance: "check",
		Cause: "it was a check of the store", Left: true, Died: time.Now().UnixMilli(),
	}.Doc()
}

// shows says whether a notification is of what was written last, where the store says of what it is.
func (p *probe) shows(n driver.Notification) bool {
	return n.Resync || n.ID == p.id && (n.Doc == nil || n.Doc.Rev >= p.revs[driver.KindSession])
}

func causeOf(out driver.Outcome) error {
	if out.Err != nil {
		return out.Err
	}
	return fmt.Errorf("%w: somebody else wrote it", store.ErrInvalid)
}

// remove removes the document.
func (p *probe) remove(ctx context.Context, kind driver.Kind) error {
	d := driver.Doc{Kind: kind, ID: p.id, WriterID: p.ids.Next()}
	outs, err := p.db.Apply(ctx, driver.Change{Op: driver.Delete, IfRev: p.revs[kind], Doc: d})
	if err == nil && outs[0].Status == driver.Unknown {
		err = outs[0].Err
	}
	if err != nil {
		return fmt.Errorf("remove %s %s, which the check wrote: %w", kind, p.id, err)
	}
	p.there[kind] = false
	return nil
}

// cleanUp removes what is left.
func (p *probe) cleanUp(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, kind := range slices.Sorted(maps.Keys(p.there)) { // the member first
		if p.there[kind] {
			if err := p.remove(ctx, kind); err != nil {
				return err
			}
		}
	}
	return nil
}
