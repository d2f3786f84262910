package elect

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

const (
	keepEvents  = 5_000 // in the store; older ones are removed
	cleanAtOnce = 500
)

// clean removes sessions dead for an hour, members without a session, and the oldest events.
func (n *node) clean() {
	at := n.times.now()
	n.calls.long("clean", func(ctx context.Context) (func(), error) {
		removed, err := n.removeSessions(ctx, at)
		if err == nil {
			err = n.removeEvents(ctx, at)
		}
		return func() { n.cache.ForgetMembers(removed...) }, err
	})
}

// removeSessions removes the sessions that have been dead for long and that no lock names any more.
func (n *node) removeSessions(ctx context.Context, now int64) ([]string, error) {
	reply, err := n.list(ctx, store.KindSession, store.Query{States: []string{string(Dead)}, Limit: cleanAtOnce})
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, d := range reply.Docs {
		s, err := record.SessionFrom(d)
		switch {
		case err != nil || s.Died == 0 || s.Died > now:
			if err := n.noteDeath(ctx, s, now); err != nil {
				return removed, err
			}
			continue
		case d.Expires == 0 || d.Expires > now:
			continue
		}
		gone, err := n.removeSession(ctx, d)
		if err != nil {
			return removed, err
		}
		if gone {
			removed = append(removed, d.ID)
		}
	}
	return removed, nil
}

// noteDeath gives a dead session the time of its death when it has none, or none that can be: somebody wrote it dead manually.
func (n *node) noteDeath(ctx context.Context, s Session, now int64) error {
	var id store.WriterID
	if err := n.box.ask(ctx, func() { id = n.session.IDs().Next() }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.p.Op)
	defer cancel()
	ifRev := s.Rev
	s.Rev, s.WriterID, s.Died = protocol.DeadRev(ifRev, n.times.revisions()), id, now
	outs, err := n.store.Apply(ctx, store.Change{IfRev: ifRev, Doc: s.Doc()})
	return firstError(outs, err)
}

// removeSession removes one dead session and its member, unless a lock still names it.
func (c *core) removeSession(ctx context.Context, d store.Doc) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.p.Op)
	defer cancel()
	named, err := c.store.List(ctx, store.KindLock, store.Query{Sessions: []string{d.ID}, CountOnly: true})
	if err != nil || named.Total > 0 {
		return false, err
	}
	member, err := c.store.Read(ctx, store.KindMember, d.ID)
	if err != nil {
		return false, err
	}
	changes := []store.Change{{Op: store.Delete, IfRev: d.Rev, Doc: store.Doc{Kind: store.KindSession, ID: d.ID}}}
	for _, m := range member.Docs {
		changes = append(changes, store.Change{Op: store.Delete, IfRev: m.Rev, Doc: store.Doc{Kind: store.KindMember, ID: d.ID}})
	}
	outs, err := c.store.Apply(ctx, changes...)
	return err == nil, firstError(outs, err)
}

// removeEvents removes those that have expired, and the oldest of too many.
func (c *core) removeEvents(ctx context.Context, now int64) error {
	ctx, cancel := context.WithTimeout(ctx, c.p.Op)
	defer cancel()
	if _, err := store.Clean(ctx, c.store, store.KindEvent, now, cleanAtOnce); err != nil {
		return err
	}
	all, err := c.store.List(ctx, store.KindEvent, store.Query{CountOnly: true})
	if err != nil || all.Total <= keepEvents {
		return err
	}
	oldest, err := c.store.List(ctx, store.KindEvent, store.Query{Limit: min(int(all.Total)-keepEvents, cleanAtOnce), NoBody: true})
	if err != nil {
		return err
	}
	changes := make([]store.Change, 0, len(oldest.Docs))
	for _, d := range oldest.Docs {
		changes = append(changes, store.Change{Op: store.Delete, IfRev: d.Rev, Doc: store.Doc{Kind: store.KindEvent, ID: d.ID}})
	}
	_, err = c.store.Apply(ctx, changes...)
	return err
}
