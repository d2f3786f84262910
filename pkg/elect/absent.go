package elect

import (
	"context"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// seekAbsent looks for locks that somebody deleted while nobody owned them. Nothing tells of that, and replicas may differ about who was
// the last owner: one waits for another that waits for it. What is known as nobody's, or a dead session's, and was not in the sweep for
// those, is read by itself, and made again where it is not there: that is a change for everybody to see.
func (e *Elector) seekAbsent(r reading) {
	if r.sweep == nil {
		return
	}
	alive := make(map[string]bool, len(r.sweep))
	for _, id := range r.sweep {
		alive[id] = true
	}
	swept := make(map[Key]bool, len(r.swept))
	for _, d := range r.swept {
		swept[Key(d.ID)] = true
	}
	var missed []string
	for _, g := range e.loop.mirror.groups {
		for key, lock := range g.locks {
			if !alive[lock.Session] && !lock.Suspended && !swept[key] && e.loop.keys[key] == nil {
				missed = append(missed, string(key))
			}
		}
	}
	slices.Sort(missed)
	for ids := range slices.Chunk(missed, store.MaxBatch) {
		e.readMissed(ids)
	}
}

// readMissed reads locks that may not be there. Most are: they were claimed since the last look.
func (e *Elector) readMissed(ids []string) {
	e.beside("read", func(ctx context.Context) (func(), error) {
		res, err := e.store.Read(ctx, store.KindLock, ids...)
		return func() {
			if err != nil {
				return
			}
			found := make(map[string]bool, len(res.Docs))
			for _, d := range res.Docs {
				found[d.ID] = true
				e.mirrorDoc(d)
			}
			for _, id := range ids {
				if !found[id] {
					e.makeAgain(Key(id))
				}
			}
		}, err
	})
}

// makeAgain creates a lock that is not there any more as nobody's.
func (e *Elector) makeAgain(key Key) {
	g := e.loop.mirror.groups[key.Group()]
	if g == nil || e.loop.keys[key] != nil || e.loop.absent[key].Key != "" {
		return
	}
	lock, ok := g.locks[key]
	if !ok {
		return
	}
	e.correct(key, nil)
	e.restore(lock)
}

// restoreAbsent makes the locks again that could not be made while the lease was not valid.
func (e *Elector) restoreAbsent() {
	if len(e.loop.absent) == 0 || !e.loop.session.wasValid {
		return
	}
	absent := e.loop.absent
	e.loop.absent = map[Key]Lock{}
	for _, lock := range absent {
		e.restore(lock)
	}
}
