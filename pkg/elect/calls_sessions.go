package elect

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Heartbeat implements [engine.Store].
func (c *calls) Heartbeat(w engine.SessionWrite, member func(out store.Outcome, malformed bool), then func(store.Outcome)) {
	sent := c.clock.Now()
	c.do("heartbeat", func(ctx context.Context) (func(), error) {
		announced := func() {}
		if w.Member != nil {
			out, err := c.applyOne(ctx, *w.Member)
			announced = func() { member(out, err != nil) }
		}
		out, err := c.applyOne(ctx, w.Change)
		if err == nil {
			err = out.Err
		}
		c.cfg.Hooks.heartbeat(c.clock.Now().HolderElapsed(sent), err)
		return func() {
			announced()
			if err != nil {
				c.log.V(1).Info("Heartbeat failed", "session", w.Change.Doc.ID, "error", err.Error())
			}
			then(out)
		}, err
	})
}

// ReadSession implements [engine.Store].
func (c *calls) ReadSession(
	id string, then func(doc *store.Doc, s *record.Session, ok bool, arrived protocol.Instant),
) {
	c.do("read", func(ctx context.Context) (func(), error) {
		reply, err := c.store.Read(ctx, store.KindSession, id)
		arrived := c.clock.Now()
		if len(reply.Docs) == 0 {
			return func() { then(nil, nil, err == nil, arrived) }, err
		}
		s := c.decodeSession(reply.Docs[0])
		return func() { then(&reply.Docs[0], &s, err == nil, arrived) }, err
	})
}

// Look implements [engine.Store].
func (c *calls) Look(l engine.SessionPoll, then func(sessions []record.Session, ok bool, arrived protocol.Instant)) {
	c.do("observe", func(ctx context.Context) (func(), error) {
		docs, err := c.listSessions(ctx, l)
		arrived := c.clock.Now()
		sessions := make([]record.Session, len(docs))
		for i, d := range docs {
			sessions[i] = c.decodeSession(d)
		}
		return func() { then(sessions, err == nil, arrived) }, err
	})
}
