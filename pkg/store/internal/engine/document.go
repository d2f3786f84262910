package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/store"
)

// text is a document as databases of keys and values keep it. Kind and ID are the key's. The names are those of the
// other stores.
type text struct {
	Rev       int64  `json:"rev"`
	Writer    writer `json:"writer"`
	Group     string `json:"group,omitempty"`
	Session   string `json:"session,omitempty"`
	Next      string `json:"next,omitempty"`
	Suspended bool   `json:"suspended,omitempty"`
	State     string `json:"state,omitempty"`
	Count     int64  `json:"count,omitempty"`
	Expires   int64  `json:"expires,omitempty"`
	Body      string `json:"body,omitempty"`
	Binary    []byte `json:"binary,omitempty"` // in the place of Body where that is no text
}

type writer struct {
	Session string `json:"session"`
	Seq     int64  `json:"seq"`
}

// Encode is a document as JSON, without its kind and its ID, which its key names.
func Encode(d store.Doc) []byte {
	t := text{
		Rev: d.Rev, Writer: writer(d.WriterID), Group: d.Group, Session: d.Session, Next: d.Next,
		Suspended: d.Suspended, State: d.State, Count: d.Count, Expires: d.Expires,
	}
	if utf8.Valid(d.Body) {
		t.Body = string(d.Body)
	} else {
		t.Binary = d.Body
	}
	data, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("engine: a document of texts and numbers is no JSON: %v", err)) // it always is
	}
	return data
}

// Decode is the reverse of Encode. What it cannot read, or what is no document by [store.CheckFound], was written out
// of band: the error says why. The document has kind and ID in any case.
func Decode(kind store.Kind, id string, data []byte) (store.Doc, error) {
	d := store.Doc{Kind: kind, ID: id}
	var t text
	if err := json.Unmarshal(data, &t); err != nil {
		return d, fmt.Errorf("not JSON of a document: %w", err)
	}
	if t.Body != "" && len(t.Binary) > 0 {
		return d, errors.New("body and binary: only one of them may be there")
	}
	d.Rev, d.WriterID, d.Group, d.Session, d.Next = t.Rev, store.WriterID(t.Writer), t.Group, t.Session, t.Next
	d.Suspended, d.State, d.Count, d.Expires = t.Suspended, t.State, t.Count, t.Expires
	switch {
	case t.Body != "":
		d.Body = []byte(t.Body)
	case len(t.Binary) > 0:
		d.Body = t.Binary
	}
	return d, store.CheckFound(d)
}

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
