package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

const (
	perRead   = 50 // chunks read at once
	readTries = 3  // how often a list is read that changes meanwhile
)

// Published is a list as it was read.
type Published struct {
	Revision int64 // 0: nothing was published yet
	Entries  []Entry
	Status   Status
	// AsOf is a revision that every document written since it was read exceeds.
	AsOf int64
}

// Vanished counts the entries that the last look did not find.
func (p Published) Vanished() int { return vanished(p.Entries) }

// Reader reads the list of one group again and again. It is for one goroutine.
type Reader struct {
	db    store.Store
	group string
	known Published
	hash  string
}

// NewReader makes a reader that has read nothing.
func NewReader(db store.Store, group string) *Reader { return &Reader{db: db, group: group} }

// Read returns the list that counts now, linearizably. Chunks are read only when the list is another than before. With
// an error the list is that of the last Read without one.
func (r *Reader) Read(ctx context.Context) (Published, error) {
	var err error
	for range readTries {
		var h head
		var floor int64
		if h, floor, err = readHead(ctx, r.db, r.group); err != nil {
			return r.known, err
		}
		if h.Revision == 0 && r.known.Revision > 0 {
			return r.known, fmt.Errorf("group %s: %w: its head is gone", r.group, errBroken)
		}
		if h.Revision != r.known.Revision || h.Hash != r.hash {
			var entries []Entry
			if entries, err = readEntries(ctx, r.db, r.group, h); err != nil {
				if errors.Is(err, errBroken) {
					continue // a newer list may have taken its place meanwhile
				}
				return r.known, err
			}
			r.known.Entries, r.hash = entries, h.Hash
		}
		r.known.Revision, r.known.Status, r.known.AsOf = h.Revision, h.Status, floor
		return r.known, nil
	}
	return r.known, err
}

// readHead reads a group's head; one of revision 0 when there is none. floor is the store's, in ms of its clock.
func readHead(ctx context.Context, db store.Store, group string) (h head, floor int64, err error) {
	found, err := db.Read(ctx, store.KindValue, headID(group))
	if err != nil {
		return head{}, 0, fmt.Errorf("read the list of group %s: %w", group, err)
	}
	if len(found.Docs) == 0 {
		return head{}, found.Floor, nil
	}
	h, err = headFrom(found.Docs[0])
	return h, found.Floor, err
}

// readEntries reads the list of a head. With errBroken it returns what is whole.
func readEntries(ctx context.Context, db store.Store, group string, h head) ([]Entry, error) {
	ids := make([]string, len(h.Chunks))
	for i := range ids {
		ids[i] = chunkID(group, h.Revision, i)
	}
	bodies := make(map[string][]byte, len(ids))
	for part := range slices.Chunk(ids, perRead) {
		found, err := db.Read(ctx, store.KindValue, part...)
		if err != nil {
			return nil, fmt.Errorf("read the list of group %s: %w", group, err)
		}
		for _, d := range found.Docs {
			bodies[d.ID] = d.Body
		}
	}
	entries, err := entriesFrom(group, h, bodies)
	if err != nil {
		return entries, fmt.Errorf("group %s: %w", group, err)
	}
	return entries, nil
}
