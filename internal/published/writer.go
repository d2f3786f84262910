package published

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// ErrOvertaken says that another replica writes by now, under a larger token.
var ErrOvertaken = errors.New("another replica publishes by now")

// errChanged says that the head was written since it was read.
var errChanged = errors.New("the list was published by another meanwhile")

const perWrite = 50 // chunks written at once

// Writer writes the list of one group under one token of its lock. E is an entry, S what is said of the list. It is
// for one goroutine.
type Writer[E Part[E], S Part[S]] struct {
	db    store.Store
	at    Place
	token int64

	writer      string // of the writer IDs: no session of the cluster
	seq         int64
	unannounced bool // there is news that the replicas were not informed of
}

// NewWriter makes a writer under the lock's token.
func NewWriter[E Part[E], S Part[S]](db store.Store, at Place, token int64) *Writer[E, S] {
	return &Writer[E, S]{db: db, at: at, token: token, writer: uuid.NewString()}
}

// Token is that of the lock.
func (w *Writer[E, S]) Token() int64 { return w.token }

// Before is what is published when a writer begins.
type Before[E Part[E], S Part[S]] struct {
	Head[S]

	Entries []E
	Broken  error // the list cannot be read whole: Entries are what is left of it
	Now     int64 // the store's clock in Unix ms

	floor int64
}

// Read reads what is published now.
func (w *Writer[E, S]) Read(ctx context.Context) (Before[E, S], error) {
	found, err := w.db.Read(ctx, driver.KindValue, w.at.head())
	if err != nil {
		return Before[E, S]{}, fmt.Errorf("read the list %s: %w", w.at, err)
	}
	b := Before[E, S]{floor: found.Floor, Now: found.Wall}
	if len(found.Docs) == 0 {
		return b, nil
	}
	var wrong error
	b.Head, wrong = headFrom[S](found.Docs[0])
	if b.Token > w.token {
		return b, fmt.Errorf("list %s: %w", w.at, ErrOvertaken)
	}
	if wrong == nil || errors.Is(wrong, ErrMalformed) {
		entries, err := readEntries[E](ctx, w.db, w.at, b.Head)
		if err != nil && !errors.Is(err, ErrBroken) && !errors.Is(err, ErrMalformed) {
			return b, err // it could not be read now: that says nothing of the list
		}
		b.Entries, wrong = entries, errors.Join(wrong, err)
	}
	b.Broken = wrong
	return b, nil
}

// Publish publishes a new list. With an error nothing of it counts, or, when the outcome is unknown, all of it.
func (w *Writer[E, S]) Publish(ctx context.Context, b Before[E, S], entries []E, status S) error {
	chunks, err := chunksOf(entries)
	if err != nil {
		return fmt.Errorf("list %s: %w", w.at, err)
	}
	revision := max(0, b.Revision) + 1
	if err := w.writeChunks(ctx, revision, chunks); err != nil {
		return err
	}
	h := Head[S]{Revision: revision, Status: status, count: len(entries), chunks: hashesOf(chunks)}
	return w.writeHead(ctx, b, h, true)
}

// Note publishes what is said of the list, and leaves the list as it is. With news all replicas are informed.
func (w *Writer[E, S]) Note(ctx context.Context, b Before[E, S], status S, news bool) error {
	h := b.Head
	h.Status = status
	return w.writeHead(ctx, b, h, news)
}

// writeHead writes the head over the one before.
func (w *Writer[E, S]) writeHead(ctx context.Context, b Before[E, S], h Head[S], news bool) error {
	h.Rev, h.Token = max(b.Rev+1, b.floor), w.token
	doc, err := h.doc(w.at, w.id())
	if err != nil {
		return err
	}
	w.unannounced = w.unannounced || news // also when the outcome is not known
	if err := w.put(ctx, []driver.Change{{IfRev: b.Rev, Doc: doc}}); err != nil {
		return err
	}
	return w.Announce(ctx)
}

// writeChunks writes those of the list that is to have this revision, over those of the list before the last.
func (w *Writer[E, S]) writeChunks(ctx context.Context, revision int64, chunks [][]byte) error {
	first := 0
	for part := range slices.Chunk(chunks, perWrite) {
		ids := make([]string, len(part))
		for i := range part {
			ids[i] = w.at.chunk(revision, first+i)
		}
		first += len(part)
		found, err := w.db.Read(ctx, driver.KindValue, ids...)
		if err != nil {
			return fmt.Errorf("read chunks of %s: %w", w.at, err)
		}
		revs := map[string]int64{}
		for _, d := range found.Docs {
			if d.Count > w.token {
				return fmt.Errorf("list %s: %w", w.at, ErrOvertaken)
			}
			revs[d.ID] = d.Rev
		}
		changes := make([]driver.Change, len(part))
		for i, body := range part {
			changes[i] = driver.Change{IfRev: revs[ids[i]], Doc: driver.Doc{
				Kind: driver.KindValue, ID: ids[i], Group: w.at.Space, Rev: max(revs[ids[i]]+1, found.Floor),
				WriterID: w.id(), Count: w.token, Body: body,
			}}
		}
		if err := w.put(ctx, changes); err != nil {
			return err
		}
	}
	return nil
}

// put writes documents, all of them or else with an error.
func (w *Writer[E, S]) put(ctx context.Context, changes []driver.Change) error {
	outs, err := w.db.Apply(ctx, changes...)
	if err != nil {
		return fmt.Errorf("publish the list %s: %w", w.at, err)
	}
	for _, out := range outs {
		switch out.Status {
		case driver.Applied:
		case driver.Unknown:
			return fmt.Errorf("publish the list %s: %w", w.at, out.Err)
		case driver.Refused, driver.Overtaken:
			if out.Doc != nil && out.Doc.Count > w.token {
				return fmt.Errorf("list %s: %w", w.at, ErrOvertaken)
			}
			return fmt.Errorf("list %s: %w", w.at, errChanged)
		}
	}
	return nil
}

// Announce has all replicas read what is published, if there is news that they were not informed of.
func (w *Writer[E, S]) Announce(ctx context.Context) error {
	if !w.unannounced {
		return nil
	}
	outs, err := w.db.Apply(ctx, record.ListPublished())
	if err == nil && outs[0].Status == driver.Unknown {
		err = outs[0].Err
	}
	if err != nil {
		return fmt.Errorf("announce the list %s: %w", w.at, err)
	}
	w.unannounced = false
	return nil
}

func (w *Writer[E, S]) id() driver.WriterID {
	w.seq++
	return driver.WriterID{Session: w.writer, Seq: w.seq}
}
