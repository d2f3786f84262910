package view

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// mutexPage is how many mutexes are read at once. Their bodies have up to 64 KiB each.
const mutexPage = 1000

// Mutexes lists the mutexes of the store that are held, waited for or kept. The others are only there for the next
// caller, and are deleted after a day.
func Mutexes(ctx context.Context, db store.Store, view *cluster.View) ([]api.Lock, error) {
	known := holdersOf(view)
	list := []api.Lock{}
	for q := (driver.Query{Limit: mutexPage}); ; {
		res, err := db.List(ctx, driver.KindMutex, q)
		if err != nil {
			return nil, fmt.Errorf("list mutexes: %w", err)
		}
		for _, d := range res.Docs {
			m, _ := record.MutexFrom(d) // a malformed one is free
			if l := known.lock(record.MutexName(d.ID), m, res.Wall); len(l.Holders)+l.Waiting > 0 ||
				!l.KeptUntil.IsZero() {
				list = append(list, l)
			}
		}
		if len(res.Docs) < mutexPage {
			return list, nil
		}
		q = q.After(res.Docs[len(res.Docs)-1].ID)
	}
}

// holders are the sessions that may hold mutexes, by id. One name stands for all that it is in.
type holders map[string]*cluster.Session

func holdersOf(view *cluster.View) holders {
	all := make(holders, len(view.Sessions))
	for i := range view.Sessions {
		all[view.Sessions[i].ID] = &view.Sessions[i]
	}
	return all
}

// session is the id and the instance of a session, which is empty where the session is not known.
func (hs holders) session(id string) (session, instance string) {
	if s := hs[id]; s != nil {
		return s.ID, s.Member.Instance
	}
	return id, ""
}

// lock is a mutex as it is shown. now is the store's clock in Unix ms.
func (hs holders) lock(name string, m protocol.MutexDoc, now int64) api.Lock {
	l := api.Lock{
		Key: name, Name: name, Kind: kindOf(m.Limit), Limit: m.Limit, Next: m.Next, Waiting: len(m.Queue),
		Owner: api.Owner{FencingToken: max(m.Exclusive, m.Shared)},
	}
	for _, h := range m.Holders {
		session, instance := hs.session(h.Session)
		l.Holders = append(l.Holders, api.LockHolder{
			Instance: instance, Session: session, FencingToken: h.Token, Shared: h.Shared, Slot: h.Slot,
			HeldSince: api.Millis(h.Since),
		})
	}
	if len(l.Holders) == 1 {
		h := l.Holders[0]
		l.Owner = api.Owner{
			Instance: h.Instance, Session: h.Session, FencingToken: h.FencingToken, OwnedSince: h.HeldSince,
		}
	}
	for _, t := range m.Queue {
		session, instance := hs.session(t.Session)
		l.Queue = append(l.Queue, api.LockWaiter{Instance: instance, Session: session, Shared: t.Shared})
	}
	if m.Hold.UntilMs > now { // whoever asks for it sets right what is further off than it is long
		l.KeptUntil = api.Millis(min(m.Hold.UntilMs, now+m.Hold.ForMs))
	}
	l.Reason, l.Message = hs.dead(m.Holders)
	return l
}

func kindOf(limit int) api.LockKind {
	switch limit {
	case 0:
		return api.LockRW
	case 1:
		return api.LockMutex
	}
	return api.LockSemaphore
}

// dead says of a lock whose holders are all dead that it can be acquired. The next caller removes them, or a replica
// that cleans up an hour after their death.
func (hs holders) dead(all []protocol.MutexHolder) (reason, message string) {
	for _, h := range all {
		s := hs[h.Session]
		if s == nil || s.State != record.Dead {
			return "", ""
		}
		message = fmt.Sprintf("%s died: %s. Who asks next can have it", s.Member.Instance, s.Cause)
		if s.Cause == "" {
			message = s.Member.Instance + " died. Who asks next can have it"
		}
	}
	if message == "" {
		return "", ""
	}
	return string(record.ReasonOrphaned), message
}
