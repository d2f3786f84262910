package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// ErrOvertaken says that another replica looks by now, under a larger token.
var ErrOvertaken = errors.New("another replica looks by now")

// errChanged says that the head was written since it was read.
var errChanged = errors.New("the list was published by another meanwhile")

const perWrite = 50 // chunks written at once

// publisher writes the list of one group under one token of its lock. It is for one goroutine.
type publisher struct {
	db    store.Store
	group string
	token int64

	writer string // of the writer IDs: no session of the cluster
	seq    int64
	untold bool // there is news that the replicas were not told of
}

func newPublisher(db store.Store, group string, token int64) *publisher {
	return &publisher{db: db, group: group, token: token, writer: uuid.NewString()}
}

// before is what a look begins with.
type before struct {
	head
	entries []Entry
	broken  error // the list cannot be read whole
	floor   int64
	now     int64 // the store's clock
}

// read reads what is published now.
func (p *publisher) read(ctx context.Context) (before, error) {
	found, err := p.db.Read(ctx, store.KindValue, headID(p.group))
	if err != nil {
		return before{}, fmt.Errorf("read the list of group %s: %w", p.group, err)
	}
	b := before{floor: found.Floor, now: found.Now}
	if len(found.Docs) == 0 {
		return b, nil
	}
	var wrong error
	b.head, wrong = headFrom(found.Docs[0])
	if b.token > p.token {
		return b, fmt.Errorf("group %s: %w", p.group, ErrOvertaken)
	}
	if wrong == nil {
		b.entries, wrong = readEntries(ctx, p.db, p.group, b.head)
		if wrong != nil && !errors.Is(wrong, errBroken) {
			return b, wrong // it could not be read now: that says nothing of the list
		}
	}
	b.broken = wrong
	return b, nil
}

// differs says whether a list is another than the one before.
func (b before) differs(entries []Entry) bool {
	return b.broken != nil || b.Revision == 0 || !slices.EqualFunc(b.entries, entries, Entry.same)
}

// publish publishes a new list. With an error nothing of it counts, or, when the outcome is unknown, all of it.
func (p *publisher) publish(ctx context.Context, b before, entries []Entry, status Status) error {
	chunks, err := chunksOf(entries)
	if err != nil {
		return fmt.Errorf("list of group %s: %w", p.group, err)
	}
	revision := max(0, b.Revision) + 1
	if err := p.writeChunks(ctx, revision, chunks); err != nil {
		return err
	}
	h := head{headBody: headBody{
		Revision: revision, Count: len(entries), Chunks: hashesOf(chunks), Status: status,
	}}
	return p.writeHead(ctx, b, h, true)
}

// note publishes how looking goes. The list stays as it is.
func (p *publisher) note(ctx context.Context, b before, status Status) error {
	h := b.head
	h.Status = status
	return p.writeHead(ctx, b, h, status.news(b.Status))
}

// writeHead writes the head over the one before. With news all replicas are told.
func (p *publisher) writeHead(ctx context.Context, b before, h head, news bool) error {
	h.rev, h.token = max(b.rev+1, b.floor), p.token
	doc, err := h.doc(p.group, p.id())
	if err != nil {
		return err
	}
	p.untold = p.untold || news // also when the outcome is not known
	if err := p.put(ctx, []store.Change{{IfRev: b.rev, Doc: doc}}); err != nil {
		return err
	}
	return p.tell(ctx)
}

// writeChunks writes those of the list that is to have this revision, over those of the list before the last.
func (p *publisher) writeChunks(ctx context.Context, revision int64, chunks [][]byte) error {
	first := 0
	for part := range slices.Chunk(chunks, perWrite) {
		ids := make([]string, len(part))
		for i := range part {
			ids[i] = chunkID(p.group, revision, first+i)
		}
		first += len(part)
		found, err := p.db.Read(ctx, store.KindValue, ids...)
		if err != nil {
			return fmt.Errorf("read chunks of group %s: %w", p.group, err)
		}
		revs := map[string]int64{}
		for _, d := range found.Docs {
			if d.Count > p.token {
				return fmt.Errorf("group %s: %w", p.group, ErrOvertaken)
			}
			revs[d.ID] = d.Rev
		}
		changes := make([]store.Change, len(part))
		for i, body := range part {
			changes[i] = store.Change{IfRev: revs[ids[i]], Doc: store.Doc{
				Kind: store.KindValue, ID: ids[i], Group: record.GroupDiscovery, Rev: max(revs[ids[i]]+1, found.Floor),
				WriterID: p.id(), Count: p.token, Body: body,
			}}
		}
		if err := p.put(ctx, changes); err != nil {
			return err
		}
	}
	return nil
}

// put writes documents, all of them or else with an error.
func (p *publisher) put(ctx context.Context, changes []store.Change) error {
	outs, err := p.db.Apply(ctx, changes...)
	if err != nil {
		return fmt.Errorf("publish the list of group %s: %w", p.group, err)
	}
	for _, out := range outs {
		switch out.Status {
		case store.Applied:
		case store.Unknown:
			return fmt.Errorf("publish the list of group %s: %w", p.group, out.Err)
		case store.Refused, store.Overtaken:
			if out.Doc != nil && out.Doc.Count > p.token {
				return fmt.Errorf("group %s: %w", p.group, ErrOvertaken)
			}
			return fmt.Errorf("group %s: %w", p.group, errChanged)
		}
	}
	return nil
}

// tell has all replicas read the list, if there is news.
func (p *publisher) tell(ctx context.Context) error {
	if !p.untold {
		return nil
	}
	outs, err := p.db.Apply(ctx, record.DiscoveryPublished())
	if err == nil && outs[0].Status == store.Unknown {
		err = outs[0].Err
	}
	if err != nil {
		return fmt.Errorf("tell of the list of group %s: %w", p.group, err)
	}
	p.untold = false
	return nil
}

func (p *publisher) id() store.WriterID {
	p.seq++
	return store.WriterID{Session: p.writer, Seq: p.seq}
}
