package driver

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

func TestValidateChanges(t *testing.T) {
	writer := WriterID{Session: "s", Seq: 1}
	put := func(edit func(*Change)) []Change {
		c := Change{Doc: Doc{Kind: KindLock, ID: "g/a", Rev: 1, WriterID: writer}}
		edit(&c)
		return []Change{c}
	}
	tests := []struct {
		name    string
		changes []Change
		want    error
	}{
		{"none", nil, nil},
		{"create", put(func(*Change) {}), nil},
		{"replace", put(func(c *Change) { c.IfRev, c.Doc.Rev = 4, 5 }), nil},
		{"body", put(func(c *Change) { c.Doc.Body = []byte(` {"a":1}`) }), nil},
		{"largest body", put(func(c *Change) { c.Doc.Body = object(MaxBody) }), nil},
		{"body too large", put(func(c *Change) { c.Doc.Body = object(MaxBody + 1) }), ErrTooLarge},
		{"body of any bytes", put(func(c *Change) { c.Doc.Body = []byte{0xff, 0} }), nil},
		{"negative expiry", put(func(c *Change) { c.Doc.Expires = -1 }), ErrMalformed},
		{"largest ID", put(func(c *Change) { c.Doc.ID = strings.Repeat("x", MaxText) }), nil},
		{"ID too large", put(func(c *Change) { c.Doc.ID = strings.Repeat("x", MaxText+1) }), ErrTooLarge},
		{"state too large", put(func(c *Change) { c.Doc.State = strings.Repeat("x", MaxText+1) }), ErrTooLarge},
		{"empty ID", put(func(c *Change) { c.Doc.ID = "" }), ErrMalformed},
		{"NUL in ID", put(func(c *Change) { c.Doc.ID = "a\x00b" }), ErrMalformed},
		{"ID not UTF-8", put(func(c *Change) { c.Doc.ID = "\xff" }), ErrMalformed},
		{"unknown kind", put(func(c *Change) { c.Doc.Kind = "thing" }), ErrMalformed},
		{"unknown operation", put(func(c *Change) { c.Op = 9 }), ErrMalformed},
		{"rev does not rise", put(func(c *Change) { c.IfRev = 1 }), ErrMalformed},
		{"rev too large", put(func(c *Change) { c.Doc.Rev = MaxRev + 1 }), ErrMalformed},
		{"rev zero", put(func(c *Change) { c.Doc.Rev = 0 }), ErrMalformed},
		{"negative condition", put(func(c *Change) { c.IfRev = -1 }), ErrMalformed},
		{"no writer ID", put(func(c *Change) { c.Doc.WriterID = WriterID{} }), ErrMalformed},
		{"delete", put(func(c *Change) { c.Op, c.IfRev = Delete, 1 }), nil},
		{"delete without revision", put(func(c *Change) { c.Op = Delete }), ErrMalformed},
		{"increment of a lock", put(func(c *Change) { c.Op = Increment }), ErrMalformed},
		{
			"increment with a revision below zero",
			put(func(c *Change) { c.Op, c.Doc = Increment, Doc{Kind: KindGroup, ID: "g", Rev: -1} }), ErrMalformed,
		},
		{
			"increment with a revision that is no time",
			put(func(c *Change) { c.Op, c.Doc = Increment, Doc{Kind: KindGroup, ID: "g", Rev: 1 << 52} }), ErrMalformed,
		},
		{"increment of a group", put(func(c *Change) { c.Op, c.Doc = Increment, Doc{Kind: KindGroup, ID: "g"} }), nil},
		{"named twice", append(put(func(*Change) {}), put(func(c *Change) { c.Doc.Rev = 2 })...), ErrMalformed},
		{
			"same ID of two kinds", append(put(func(*Change) {}), put(func(c *Change) { c.Doc.Kind = KindValue })...),
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := ValidateChanges(tt.changes); !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	mine, other := WriterID{"me", 1}, WriterID{"you", 1}
	at := func(rev int64, s WriterID) *Doc { return &Doc{Kind: KindLock, ID: "g/a", Rev: rev, WriterID: s} }
	put := func(ifRev, rev int64) Change {
		return Change{IfRev: ifRev, Doc: *at(rev, mine)}
	}
	tests := []struct {
		name   string
		change Change
		found  *Doc
		want   Status
		apply  bool
	}{
		{"create", put(0, 1), nil, Applied, true},
		{"replace", put(4, 9), at(4, other), Applied, true},
		{"repeated", put(4, 9), at(9, mine), Applied, false},
		{"another write at my revision", put(4, 9), at(9, other), Refused, false},
		{"another write below my revision", put(4, 9), at(7, other), Refused, false},
		{"another write above my revision", put(4, 9), at(10, other), Overtaken, false},
		{"my own later write", put(4, 9), at(10, WriterID{"me", 2}), Overtaken, false},
		{"absent", put(4, 9), nil, Overtaken, false},
		{"create over a document", put(0, 1), at(1, other), Refused, false},
		{"delete", Change{Op: Delete, IfRev: 4}, at(4, other), Applied, true},
		{"delete at a lower revision", Change{Op: Delete, IfRev: 4}, at(3, other), Refused, false},
		{"delete, and perhaps created again since", Change{Op: Delete, IfRev: 4}, at(5, other), Overtaken, false},
		{"delete of nothing", Change{Op: Delete, IfRev: 4}, nil, Overtaken, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, apply := Judge(tt.change, tt.found)
			if got.Status != tt.want || apply != tt.apply {
				t.Fatalf("got %v, apply %t; want %v, %t", got.Status, apply, tt.want, tt.apply)
			}
			if got.Status != Applied && got.Doc != tt.found {
				t.Fatalf("document %v, want the one found", got.Doc)
			}
		})
	}
}

func TestAllUnknown(t *testing.T) {
	for _, out := range AllUnknown(3, context.DeadlineExceeded) {
		if out.Status != Unknown || !errors.Is(out.Err, ErrUnavailable) ||
			!errors.Is(out.Err, context.DeadlineExceeded) {
			t.Fatalf("got %+v", out)
		}
	}
}

func object(size int) []byte {
	return []byte(`{"a":"` + string(bytes.Repeat([]byte("x"), size-8)) + `"}`)
}
