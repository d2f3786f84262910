package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Writer writes decisions. Make it with [NewWriter]. Its methods may be called from many goroutines.
type Writer struct {
	db      store.Store
	session string // of the writer IDs: no session of the cluster
	seq     atomic.Int64
	events  atomic.Int64
}

// NewWriter makes a writer to the store.
func NewWriter(db store.Store) *Writer { return &Writer{db: db, session: uuid.NewString()} }

// Write writes what was decided, and has all replicas look. It returns once everything is known to be written, with an
// event for each change; an error says that some of it may not be. To write the same again does no harm.
//
// Who asked may leave in between. What has begun goes on for [finishWithin] after ctx has ended, so that nothing is
// written without its event, and a resume is not left half done.
func (w *Writer) Write(ctx context.Context, r Request, d Decision) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%s: %w", r.Verb, err)
	}
	ctx, cancel := outliving(ctx, finishWithin)
	defer cancel()
	// What is put stands before anything is deleted: who does not see a pause any more sees when it ended.
	if err := w.write(ctx, r, driver.Put, d.Put); err != nil {
		return err
	}
	return w.write(ctx, r, driver.Delete, d.Delete)
}

// finishWithin is how long a change goes on for whose asker has left.
const finishWithin = 5 * time.Second

// outliving is a context that ends a while after ctx.
func outliving(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	longer, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(while, func() { end(context.Cause(ctx)) })
	})
	return longer, func() { stop(); end(nil) }
}

func (w *Writer) write(ctx context.Context, r Request, op driver.Op, overrides []record.Override) error {
	for chunk := range slices.Chunk(overrides, driver.MaxBatch) {
		batch := make([]change, len(chunk))
		for i, o := range chunk {
			batch[i] = change{Override: o, op: op, lasts: r.For}
		}
		written, now, err := w.writeAll(ctx, batch)
		if len(written) > 0 {
			err = errors.Join(err, w.announce(ctx, written, r.event, now))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.Verb, err)
		}
	}
	return nil
}

// change is one override to be written, or to be taken back.
type change struct {
	record.Override
	op     driver.Op
	lasts  time.Duration // 0: until it is taken back
	unsure bool          // it was tried, and may be written
}

// writeAll repeats until every override is as wanted, and returns those that were not so before, also with an error.
// Others may write the same ones meanwhile: the last one holds.
func (w *Writer) writeAll(ctx context.Context, changes []change) (written []change, now int64, err error) {
	for pause := 10 * time.Millisecond; len(changes) > 0; pause = min(2*pause, time.Second) {
		var done []change
		var read int64
		done, changes, read, err = w.writeOnce(ctx, changes)
		written, now = append(written, done...), max(now, read)
		if err != nil || len(changes) == 0 {
			break
		}
		if err := clock.Sleep(ctx, pause); err != nil {
			return written, now, err
		}
	}
	return written, now, err
}

// writeOnce reads what is there, and writes over it. It returns what was written, and what must be tried again.
func (w *Writer) writeOnce(ctx context.Context, changes []change) (written, again []change, now int64, err error) {
	ids := make([]string, len(changes))
	for i, c := range changes {
		ids[i] = c.ID()
	}
	found, err := w.db.Read(ctx, driver.KindOverride, ids...)
	if err != nil {
		return nil, nil, 0, err
	}
	revs, tokens := make(map[string]int64, len(found.Docs)), make(map[string]int64, len(found.Docs))
	for _, d := range found.Docs {
		before, _ := record.OverrideFrom(d) // what makes no sense in it counts as missing
		revs[d.ID], tokens[d.ID] = d.Rev, before.Token
	}
	var writes []driver.Change
	var tried []change
	for _, c := range changes {
		rev, there := revs[c.ID()]
		if c.op == driver.Delete && !there {
			if c.unsure {
				written = append(written, c)
			}
			continue
		}
		o := c.Override
		o.Rev, o.At = max(rev+1, found.Floor, found.Now), found.Wall
		if o.Kind == record.OverrideTrigger { // larger than that of the one before, and than the last that was fired
			o.Token = max(found.Wall, tokens[c.ID()]+1, o.Token+1)
		}
		if verb, _ := verbs.Leaving(o.Kind); verb.NamesInstances() {
			o.Seen = found.Wall
		}
		if o.Until = 0; c.lasts > 0 {
			o.Until = found.Wall + c.lasts.Milliseconds()
		}
		writes = append(writes, driver.Change{Op: c.op, IfRev: rev, Doc: o.Doc(w.id())})
		tried = append(tried, c)
	}
	if len(writes) == 0 {
		return written, nil, found.Wall, nil
	}
	outs, err := w.db.Apply(ctx, writes...)
	if err != nil {
		return nil, nil, 0, err
	}
	for i, out := range outs {
		switch out.Status {
		case driver.Applied, driver.Overtaken:
			written = append(written, tried[i])
		case driver.Unknown:
			if errors.Is(out.Err, context.Canceled) || ctx.Err() != nil {
				err = out.Err
			}
			tried[i].unsure = true
			again = append(again, tried[i])
		case driver.Refused:
			again = append(again, tried[i])
		}
	}
	return written, again, found.Wall, err
}

func (w *Writer) id() driver.WriterID { return driver.WriterID{Session: w.session, Seq: w.seq.Add(1)} }

// announce increments the counter that has replicas read the overrides, and notes an event for each that has one.
func (w *Writer) announce(
	ctx context.Context, batch []change, event func(record.Override) (record.Event, bool), now int64,
) error {
	changes := []driver.Change{{
		Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: record.CounterOverrides},
	}}
	for _, c := range batch {
		e, ok := event(c.Override)
		if !ok {
			continue
		}
		e.Time, e.ID = now, record.EventID(now, w.session, w.events.Add(1))
		changes = append(changes, driver.Change{Doc: e.Doc(w.id())})
	}
	for batch := range slices.Chunk(changes, driver.MaxBatch) {
		outs, err := w.db.Apply(ctx, batch...)
		if err != nil {
			return fmt.Errorf("announce it: %w", err)
		}
		if outs[0].Status == driver.Unknown && batch[0].Op == driver.Increment {
			return fmt.Errorf("announce it: %w", outs[0].Err)
		}
	}
	if len(changes) > 1 {
		_, _ = w.db.Apply(ctx, record.EventsWritten()) // what was asked for is written: a watch of events may be late
	}
	return nil
}

// event says what was asked for.
func (r Request) event(o record.Override) (record.Event, bool) {
	e := about(o)
	e.Type, e.Reason, e.By, e.Message = EventChange, record.Reason(pascal(string(r.Verb))), r.By, r.Reason
	if r.For > 0 {
		e.Message = strings.TrimSuffix("for "+r.For.String()+": "+r.Reason, ": ")
	}
	return e, o.Kind != record.OverrideResume // the end of the pause has an event
}

// about is an event that names what an override is about.
func about(o record.Override) record.Event {
	e := record.Event{To: o.To}
	switch o.Scope {
	case record.ScopeTask:
		e.Key = record.Key(o.Name)
	case record.ScopeGroup:
		e.Group = o.Name
	case record.ScopeInstance:
		e.From = o.Name
	}
	return e
}

// EventChange is the type of events about what operators asked for. Their reason is the verb in PascalCase.
const EventChange = "Change"

// pascal begins a word with a capital.
func pascal(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
