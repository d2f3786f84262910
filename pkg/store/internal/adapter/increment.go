package adapter

import "github.com/shardctl/shardctl/pkg/store"

// Incremented is the counter that an [store.Increment] of named makes of old; nil: the first. One that was edited out
// of band, so that it cannot be raised, goes on at floor, which no one knows it at.
func Incremented(named store.Doc, old *store.Doc, floor int64) store.Doc {
	d := store.Doc{Kind: named.Kind, ID: named.ID}
	if old != nil {
		d = *old
	}
	if d.Rev >= store.MaxRev || d.Count < 0 || d.Count >= store.MaxRev {
		d.Rev, d.Count = floor, floor
	}
	d.Rev, d.Count, d.WriterID = max(d.Rev+1, named.Rev), d.Count+1, store.WriterID{}
	return d
}
