package published

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

const (
	perRead   = 50 // chunks read at once
	readTries = 3  // how often a list is read that changes meanwhile
)

// List is a list as it was read. No one changes its entries.
type List[E, S any] struct {
	Revision int64 // 0: nothing was published yet
	Entries  []E
	Status   S
	// AsOf is a revision that every document written since it was read exceeds.
	AsOf int64
}

// Reader reads the list of one group again and again. It is for one goroutine.
type Reader[E Part[E], S Part[S]] struct {
	db    store.Store
	at    Place
	known List[E, S]
	hash  string
	wrong error // what of the entries was left out
}

// NewReader makes a reader that has read nothing.
func NewReader[E Part[E], S Part[S]](db store.Store, at Place) *Reader[E, S] {
	return &Reader[E, S]{db: db, at: at}
}

// Read returns the list that counts now, linearizably. Chunks are read only when the list is another than before. With
// an error the list is that of the last Read without one; with [ErrMalformed] it is the one that counts now, less what
// makes no sense.
func (r *Reader[E, S]) Read(ctx context.Context) (List[E, S], error) {
	var err error
	for range readTries {
		h, floor, wrong := readHead[S](ctx, r.db, r.at)
		if wrong != nil && !errors.Is(wrong, ErrMalformed) {
			return r.known, wrong
		}
		if h.Revision == 0 && r.known.Revision > 0 {
			return r.known, fmt.Errorf("list %s: %w: its head is gone", r.at, ErrBroken)
		}
		if h.Revision != r.known.Revision || h.Hash != r.hash {
			var entries []E
			entries, err = readEntries[E](ctx, r.db, r.at, h)
			switch {
			case errors.Is(err, ErrBroken):
				continue // a newer list may have taken its place meanwhile
			case err != nil && !errors.Is(err, ErrMalformed):
				return r.known, err
			}
			r.known.Entries, r.hash, r.wrong = entries, h.Hash, err
		}
		r.known.Revision, r.known.Status, r.known.AsOf = h.Revision, h.Status, floor
		return r.known, errors.Join(wrong, r.wrong)
	}
	return r.known, err
}

// readHead reads a head; one of revision 0 when there is none. floor is the store's, in ms of its clock.
func readHead[S Part[S]](ctx context.Context, db store.Store, at Place) (h Head[S], floor int64, err error) {
	found, err := db.Read(ctx, driver.KindValue, at.head())
	if err != nil {
		return h, 0, fmt.Errorf("read the list %s: %w", at, err)
	}
	if len(found.Docs) == 0 {
		return h, found.Floor, nil
	}
	h, err = headFrom[S](found.Docs[0])
	return h, found.Floor, err
}

// readEntries reads the list of a head. With ErrBroken it returns what is whole, and with ErrMalformed what makes sense.
func readEntries[E Part[E], S Part[S]](ctx context.Context, db store.Store, at Place, h Head[S]) ([]E, error) {
	ids := make([]string, len(h.chunks))
	for i := range ids {
		ids[i] = at.chunk(h.Revision, i)
	}
	docs := make(map[string]driver.Doc, len(ids))
	for part := range slices.Chunk(ids, perRead) {
		found, err := db.Read(ctx, driver.KindValue, part...)
		if err != nil {
			return nil, fmt.Errorf("read the list %s: %w", at, err)
		}
		for _, d := range found.Docs {
			docs[d.ID] = d
		}
	}
	entries, err := entriesFrom[E](at, h, docs)
	if err != nil {
		return entries, fmt.Errorf("list %s: %w", at, err)
	}
	return entries, nil
}
