package loop

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

const (
	keepEvents  = 5_000 // in the store; older ones are removed
	cleanAtOnce = 500
)

// cleaner removes what has expired.
type cleaner struct {
	docs  Documents
	box   *mailbox
	times *StoreClock
}

// removeSessions removes the sessions that have been dead for long and that no lock and no mutex names any more.
func (c *cleaner) removeSessions(ctx context.Context, now int64, id func() driver.WriterID) ([]string, error) {
	dead := driver.Query{States: []string{string(record.Dead)}, Limit: cleanAtOnce}
	reply, err := c.docs.list(ctx, driver.KindSession, dead)
	if err != nil {
		return nil, err
	}
	var old []driver.Doc
	for _, d := range reply.Docs {
		s, err := record.SessionFrom(d)
		switch {
		case err != nil || s.Died == 0 || s.Died > now:
			if err := c.noteDeath(ctx, s, now, id); err != nil {
				return nil, err
			}
		case d.Expires > 0 && d.Expires <= now:
			old = append(old, d)
		}
	}
	buried, err := c.removeDead(ctx, old, id)
	if err != nil || !buried {
		return nil, err
	}
	var removed []string
	for _, d := range old {
		gone, err := c.removeSession(ctx, d)
		if err != nil {
			return removed, err
		}
		if gone {
			removed = append(removed, d.ID)
		}
	}
	return removed, nil
}

// noteDeath gives a dead session the time of its death when it has none, or none that can be: somebody wrote it
// dead manually.
func (c *cleaner) noteDeath(ctx context.Context, s record.Session, now int64, id func() driver.WriterID) error {
	ifRev := s.Rev
	if err := c.box.Ask(ctx, func(*engine.Engine) { s.WriterID = id() }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.docs.op)
	defer cancel()
	s.Rev, s.Died = protocol.DeadRev(ifRev, c.times.Revisions()), now
	out, err := c.docs.applyOne(ctx, driver.Change{IfRev: ifRev, Doc: s.Doc()})
	return errors.Join(out.Err, err)
}

// removeSession removes one dead session and its member, unless a lock still names it.
func (c *cleaner) removeSession(ctx context.Context, d driver.Doc) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.docs.op)
	defer cancel()
	named, err := c.docs.store.List(ctx, driver.KindLock, driver.Query{Sessions: []string{d.ID}, CountOnly: true})
	if err != nil || named.Total > 0 {
		return false, err
	}
	member, err := c.docs.store.Read(ctx, driver.KindMember, d.ID)
	if err != nil {
		return false, err
	}
	outs, err := c.docs.store.Apply(ctx, deletions(append(member.Docs, d))...)
	return err == nil, firstError(outs, err)
}

// removeMutexes removes those that have expired. Their counter first gets the largest of their revisions: a mutex that
// is made again takes tokens above that.
func (c *cleaner) removeMutexes(ctx context.Context, now int64) error {
	ctx, cancel := context.WithTimeout(ctx, c.docs.op)
	defer cancel()
	expired, err := c.docs.store.List(
		ctx, driver.KindMutex, driver.Query{Expired: now, Limit: cleanAtOnce, NoBody: true},
	)
	if err != nil || len(expired.Docs) == 0 {
		return err
	}
	counter := driver.Doc{Kind: driver.KindGroup, ID: record.GroupMutexes}
	for _, d := range expired.Docs {
		if d.Rev <= driver.MaxMark { // else edited manually: no time, and nothing could be created above it
			counter.Rev = max(counter.Rev, d.Rev)
		}
	}
	out, err := c.docs.applyOne(ctx, driver.Change{Op: driver.Increment, Doc: counter})
	if err = errors.Join(out.Err, err); err != nil {
		return err
	}
	outs, err := c.docs.store.Apply(ctx, deletions(expired.Docs)...)
	return firstError(outs, err)
}

// removeRequests removes those that have expired. There may be many more than of anything else. One that was started
// stays while its session is not known to be dead: its caller may be at work on it.
func (c *cleaner) removeRequests(ctx context.Context, now int64) error {
	for page, err := range c.docs.pages(ctx, driver.KindRequest, driver.Query{Expired: now, NoBody: true}) {
		if err != nil {
			return err
		}
		for batch := range slices.Chunk(page, driver.MaxBatch) {
			if err := c.removeSomeRequests(ctx, batch); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cleaner) removeSomeRequests(ctx context.Context, expired []driver.Doc) error {
	ctx, cancel := context.WithTimeout(ctx, c.docs.op)
	defer cancel()
	owners := map[string]bool{} // of those that were started: whether they may live
	for _, d := range expired {
		if d.State == record.RequestStarted && d.Session != "" {
			owners[d.Session] = false
		}
	}
	if len(owners) > 0 {
		found, err := c.docs.store.Read(ctx, driver.KindSession, slices.Collect(maps.Keys(owners))...)
		if err != nil {
			return err
		}
		for _, d := range found.Docs { // those of the dead are removed an hour after their death
			owners[d.ID] = d.State != string(record.Dead)
		}
	}
	over := slices.DeleteFunc(slices.Clone(expired), func(d driver.Doc) bool {
		return d.State == record.RequestStarted && owners[d.Session]
	})
	if len(over) == 0 {
		return nil
	}
	outs, err := c.docs.store.Apply(ctx, deletions(over)...)
	return firstError(outs, err)
}

// deletions delete documents as they were found.
func deletions(docs []driver.Doc) []driver.Change {
	changes := make([]driver.Change, len(docs))
	for i, d := range docs {
		changes[i] = driver.Change{Op: driver.Delete, IfRev: d.Rev, Doc: driver.Doc{Kind: d.Kind, ID: d.ID}}
	}
	return changes
}

// moveEvents dates events anew whose clock was far ahead: until that moment they would be the newest, and stay. Who
// removes one writes it again, so that none is there twice.
func (c *cleaner) moveEvents(ctx context.Context, now int64, id func() driver.WriterID) error {
	ctx, cancel := context.WithTimeout(ctx, c.docs.op)
	defer cancel()
	from := record.EventID(now+record.MostAhead.Milliseconds(), "", 0)
	found, err := c.docs.store.List(ctx, driver.KindEvent, driver.Query{From: from, Limit: driver.MaxBatch})
	if err != nil || len(found.Docs) == 0 {
		return err
	}
	outs, err := c.docs.store.Apply(ctx, deletions(found.Docs)...)
	if err != nil {
		return err
	}
	var again []driver.Change
	for i, out := range outs {
		e, err := record.EventFrom(found.Docs[i])
		if out.Status != driver.Applied || err != nil {
			continue
		}
		var writer driver.WriterID
		if err := c.box.Ask(ctx, func(*engine.Engine) { writer = id() }); err != nil {
			return err
		}
		e.Time = now - int64(len(outs)-i) // their order stays
		e.ID = record.EventID(e.Time, writer.Session, writer.Seq)
		again = append(again, driver.Change{Doc: e.Doc(writer)})
	}
	c.docs.log.Info("Events were dated by a clock that was far ahead: they count as of now", "events", len(again))
	outs, err = c.docs.store.Apply(ctx, again...)
	return firstError(outs, err)
}

// removeEvents removes those that have expired, and the oldest of too many.
func (c *cleaner) removeEvents(ctx context.Context, now int64) error {
	ctx, cancel := context.WithTimeout(ctx, c.docs.op)
	defer cancel()
	if _, err := driver.Clean(ctx, c.docs.store, driver.KindEvent, now, cleanAtOnce); err != nil {
		return err
	}
	all, err := c.docs.store.List(ctx, driver.KindEvent, driver.Query{CountOnly: true})
	if err != nil || all.Total <= keepEvents {
		return err
	}
	oldest, err := c.docs.store.List(
		ctx, driver.KindEvent, driver.Query{Limit: min(int(all.Total)-keepEvents, cleanAtOnce), NoBody: true},
	)
	if err != nil {
		return err
	}
	_, err = c.docs.store.Apply(ctx, deletions(oldest.Docs)...)
	return err
}

// removeDead takes dead sessions out of the mutexes that name them, before they are removed. A waiter does
// so by itself. One without a waiter would name them for ever, and never expire. It says whether none names them now.
func (c *cleaner) removeDead(
	ctx context.Context, sessions []driver.Doc, id func() driver.WriterID,
) (done bool, err error) {
	if len(sessions) == 0 {
		return true, nil
	}
	dead := make([]string, len(sessions))
	for i, d := range sessions {
		dead[i] = d.ID
	}
	done = true
	for page, err := range c.docs.pages(ctx, driver.KindMutex, driver.Query{NoBody: true}) {
		if err != nil {
			return false, err
		}
		var used []string
		for _, d := range page {
			if d.Expires == 0 {
				used = append(used, d.ID)
			}
		}
		for batch := range slices.Chunk(used, driver.MaxBatch) {
			free, err := c.removeDeadIn(ctx, batch, dead, id)
			if err != nil {
				return false, err
			}
			done = done && free
		}
	}
	return done, nil
}

// removeDeadIn takes them out of some mutexes. done: none of these names them now.
func (c *cleaner) removeDeadIn(
	ctx context.Context, ids, dead []string, id func() driver.WriterID,
) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.docs.op)
	defer cancel()
	reply, err := c.docs.store.Read(ctx, driver.KindMutex, ids...)
	if err != nil {
		return false, err
	}
	var changes []driver.Change
	for _, d := range reply.Docs {
		is, err := record.MutexFrom(d)
		if err != nil {
			continue // what else is in it is not ours to drop
		}
		left, named := is.Buried(dead, c.times.Revisions())
		if !named {
			continue
		}
		var writer driver.WriterID
		if err := c.box.Ask(ctx, func(*engine.Engine) { writer = id() }); err != nil {
			return false, err
		}
		changes = append(changes, driver.Change{IfRev: d.Rev, Doc: record.MutexDoc(d.ID, left, writer, c.times.now())})
	}
	if len(changes) == 0 {
		return true, nil
	}
	outs, err := c.docs.store.Apply(ctx, changes...)
	applied := !slices.ContainsFunc(outs, func(o driver.Outcome) bool { return o.Status != driver.Applied })
	return err == nil && applied, firstError(outs, err)
}
