package elect

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// swept takes the locks that name no live session: nobody's, those of the dead, and those of sessions that never were, which
// somebody wrote by hand and no other reading would show.
func (e *Elector) swept(docs []store.Doc) {
	var lower []string
	for _, d := range docs {
		key := Key(d.ID)
		if g := e.loop.mirror.groups[key.Group()]; g != nil && g.locks[key].Rev > d.Rev && len(lower) < store.MaxBatch {
			lower = append(lower, d.ID)
			continue
		}
		e.mirrorDoc(d)
	}
	if len(lower) > 0 {
		e.readAgain(lower)
	}
}

// readAgain reads locks that were found at a lower revision than is known here: a list that is stale, or somebody restored them. Only
// a linearizable read tells.
func (e *Elector) readAgain(ids []string) {
	e.beside("read", func(ctx context.Context) (func(), error) {
		res, err := e.store.Read(ctx, store.KindLock, ids...)
		return func() {
			for _, d := range res.Docs {
				if e.loop.keys[Key(d.ID)] == nil {
					e.correct(Key(d.ID), &d)
				}
			}
		}, err
	})
}

// ownMember sees to it that what this instance says of itself is what others read: a document that was deleted or edited by hand
// is written again.
func (e *Elector) ownMember(r reading) {
	s := &e.loop.session
	if r.asked.Session == "" || s.id != r.asked.Session || s.m.Phase != protocol.Open || s.memberBusy || s.memberDirty || s.memberWrite != nil ||
		s.member.Rev != r.asked.Rev {
		return
	}
	rev := int64(0)
	if len(r.own) > 0 {
		if rev = r.own[0].Rev; rev == s.member.Rev && string(r.own[0].Body) == string(s.member.Doc(store.WriterID{}).Body) {
			return
		}
	}
	e.log.Info("What this instance says of itself was deleted or edited: writing it again", "session", s.id)
	s.member.Rev, s.memberDirty = rev, true
}
