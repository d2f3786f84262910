package elect

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect/internal/liveness"
	"github.com/shardctl/shardctl/pkg/elect/internal/session"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// heartbeat writes the session's document, the first time after the member's: whoever sees the one is to find the other.
func (c *calls) heartbeat(w session.Write, member func(out store.Outcome, malformed bool), then func(store.Outcome)) {
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

// applyOne sends one change. With an error the store cannot take it at all, and the outcome is unknown.
func (c *core) applyOne(ctx context.Context, change store.Change) (store.Outcome, error) {
	outs, err := c.store.Apply(ctx, change)
	if err != nil {
		return store.Outcome{}, err
	}
	return outs[0], nil
}

// readSession reads a session's document, linearizably. doc is nil when it is absent, ok is false when the read failed.
func (c *calls) readSession(id string, then func(doc *store.Doc, s *record.Session, ok bool, arrived protocol.Instant)) {
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

// look lists the live and draining sessions: all of them, or the few that follow the own one.
func (c *calls) look(l liveness.Look, then func(sessions []record.Session, ok bool, arrived protocol.Instant)) {
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

func (c *core) listSessions(ctx context.Context, l liveness.Look) ([]store.Doc, error) {
	alive := []string{string(record.Live), string(record.Draining)}
	if l.All {
		reply, err := c.list(ctx, store.KindSession, store.Query{States: alive})
		return reply.Docs, err
	}
	reply, err := c.list(ctx, store.KindSession, store.Query{States: alive, From: l.From + "\x00", Limit: l.Count})
	if err != nil || len(reply.Docs) == l.Count {
		return reply.Docs, err
	}
	first, err := c.list(ctx, store.KindSession, store.Query{States: alive, To: l.From, Limit: l.Count - len(reply.Docs)})
	return append(reply.Docs, first.Docs...), err
}

func (c *core) decodeSession(d store.Doc) record.Session {
	s, err := record.SessionFrom(d)
	c.malformed.note(c.log, d, err)
	return s
}
