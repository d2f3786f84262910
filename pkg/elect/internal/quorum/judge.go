package quorum

import "github.com/shardctl/shardctl/pkg/elect/store"

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
// writer ID is its own deletion.
func Judge(c store.Change, v Value, sent bool) (out store.Outcome, propose Value, changes bool) {
	switch {
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
		return out, Value{Is: Deleted, Doc: gone}, true
	}
	return out, Value{Is: Live, Doc: c.Doc}, true
}
