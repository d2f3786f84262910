package quorum

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/shardctl/shardctl/pkg/store"
)

// Is says what a register holds.
type Is uint8

// What a register holds.
const (
	Absent Is = iota
	Live
	Deleted // a tombstone: Doc has the revision that was deleted, and the writer ID of the deletion
)

// Value is what a register holds. Doc is zero where it is Absent.
type Value struct {
	Is  Is
	Doc store.Doc
	// Before marks the writes before it, the newest first. By that a writer knows its write again whose round failed,
	// and on whose value others have built since.
	Before [remembered]Mark
}

// remembered is how many writes a register remembers before its own.
const remembered = 8

// Mark stands for a writer ID. 0 is none.
type Mark uint64

func markOf(w store.WriterID) Mark {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", w.Seq, w.Session)
	return Mark(h.Sum64())
}

// after is what is marked in a value that takes the place of v.
func (v Value) after() (marks [remembered]Mark) {
	if v.Is != Absent {
		marks[0] = markOf(v.Doc.WriterID)
		copy(marks[1:], v.Before[:])
	}
	return marks
}

// Document is the document; nil where there is none.
func (v Value) Document() *store.Doc {
	if v.Is != Live {
		return nil
	}
	return &v.Doc
}

// Judge says how a Put or Delete ends on what the register holds, and what is to be proposed. Where the change changes
// nothing, that is v itself: see [Round.Propose]. The outcome holds once the proposal is chosen.
//
// It is [store.Judge] but for tombstones. A creation over one needs a higher revision than that of the deletion. Else a
// creation that was applied and then deleted would be applied again when its sender repeats it. It may have been
// written, so it is Overtaken. sent says that this very call has proposed the change before. Then a tombstone by its
// writer ID is its own deletion, and a write that is marked in the value was applied.
//
// A change without a writer ID is never known again.
func Judge(c store.Change, v Value, sent bool) (out store.Outcome, propose Value, changes bool) {
	sent = sent && c.Doc.WriterID != (store.WriterID{})
	switch {
	case sent && slices.Contains(v.Before[:], markOf(c.Doc.WriterID)):
		return store.Outcome{Status: store.Applied}, v, false
	case v.Is == Deleted && c.Op == store.Put && c.IfRev == 0 && c.Doc.Rev <= v.Doc.Rev:
		return store.Outcome{Status: store.Overtaken}, v, false
	case v.Is == Deleted && c.Op == store.Delete && sent && c.Doc.WriterID == v.Doc.WriterID && c.IfRev == v.Doc.Rev:
		return store.Outcome{Status: store.Applied}, v, false
	}
	out, changes = store.Judge(c, v.Document())
	switch {
	case !changes:
		return out, v, false
	case c.Op == store.Delete:
		gone := store.Doc{Kind: c.Doc.Kind, ID: c.Doc.ID, Rev: c.IfRev, WriterID: c.Doc.WriterID}
		return out, Value{Is: Deleted, Doc: gone, Before: v.after()}, true
	}
	return out, Value{Is: Live, Doc: c.Doc, Before: v.after()}, true
}
