package dbstore_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

func TestDocumentsComeBack(t *testing.T) {
	whole := driver.Doc{
		Kind: driver.KindLock, ID: "g/a", Rev: driver.MaxRev, WriterID: driver.WriterID{Session: "s", Seq: math.MaxInt64},
		Group: "g", Session: "<s>&\u2028", Next: "n", Suspended: true, State: "live", Count: math.MinInt64, Expires: 7,
		Body: []byte(`{"a": "\u0000"}`),
	}
	binary := driver.Doc{Kind: driver.KindValue, ID: "g/b", Rev: 1, Body: []byte{0xff, 0}}
	for _, d := range []driver.Doc{whole, binary, {Kind: driver.KindGroup, ID: "g", Rev: 1}} {
		got, err := dbstore.Decode(d.Kind, d.ID, dbstore.Encode(d))
		if err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("got %+v, %v; want %+v", got, err, d)
		}
	}
}

func TestEditedDocumentsAreNone(t *testing.T) {
	for data, want := range map[string]string{
		"":                                     "not JSON",
		`{"rev":"1"}`:                          "not JSON",
		`{"rev":0}`:                            "rev: 0",
		`{"rev":1,"body":"a","binary":"Yg=="}`: "only one",
	} {
		if d, err := dbstore.Decode(driver.KindLock, "g/a", []byte(data)); err == nil ||
			!strings.Contains(err.Error(), want) || d.ID != "g/a" {
			t.Errorf("%s: got %+v, %v; want an error with %q", data, d, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(dbstore.Encode(driver.Doc{Rev: 1, Body: []byte("x")}))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := dbstore.Decode(driver.KindLock, "g/a", data)
		if err != nil {
			return
		}
		again, err := dbstore.Decode(driver.KindLock, "g/a", dbstore.Encode(d))
		if err != nil || !reflect.DeepEqual(again, d) {
			t.Fatalf("%q: %+v became %+v, %v", data, d, again, err)
		}
	})
}

func TestSelect(t *testing.T) {
	docs := func() []driver.Doc {
		return []driver.Doc{{ID: "b", Rev: 2, Body: []byte("x")}, {ID: "c", Rev: 1}, {ID: "a", Rev: 3}}
	}
	ids := func(r driver.Reply) (text string) {
		for _, d := range r.Docs {
			text += d.ID
		}
		return text
	}
	for _, tt := range []struct {
		q    driver.Query
		want string
	}{
		{driver.Query{}, "abc"},
		{driver.Query{Reverse: true}, "cba"},
		{driver.Query{Limit: 2}, "ab"},
		{driver.Query{Reverse: true, Limit: 1}, "c"},
		{driver.Query{MinRev: 2}, "ab"},
		{driver.Query{From: "b"}, "bc"},
		{driver.Query{To: "c"}, "ab"},
		{driver.Query{CountOnly: true}, ""},
	} {
		if got := dbstore.Select(docs(), tt.q); ids(got) != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.q, ids(got), tt.want)
		}
	}
	if got := dbstore.Select(docs(), driver.Query{CountOnly: true, MinRev: 2}).Total; got != 2 {
		t.Errorf("counted %d, want 2", got)
	}
	if got := dbstore.Select(docs(), driver.Query{NoBody: true, To: "c"}); got.Docs[1].Body != nil {
		t.Errorf("a body of %q", got.Docs[1].Body)
	}
}

func TestIncremented(t *testing.T) {
	named := driver.Doc{Kind: driver.KindGroup, ID: "g", Rev: 10}
	for _, tt := range []struct {
		old        *driver.Doc
		rev, count int64
	}{
		{nil, 10, 1},
		{&driver.Doc{Rev: 10, Count: 4}, 11, 5},
		{&driver.Doc{Rev: 3, Count: 4}, 10, 5},
		{&driver.Doc{Rev: driver.MaxRev, Count: 4}, 101, 101},
		{&driver.Doc{Rev: 3, Count: -1}, 101, 101},
	} {
		if got := dbstore.Incremented(named, tt.old, 100); got.Rev != tt.rev || got.Count != tt.count {
			t.Errorf("%+v: got %+v, want rev %d, count %d", tt.old, got, tt.rev, tt.count)
		}
	}
}

func TestUnreadableIsLoggedOnce(t *testing.T) {
	var lines []string
	s := dbstore.New(t.Context(), &backend{scan: func(driver.Query) dbstore.Page {
		return dbstore.Page{Docs: []driver.Doc{
			{Kind: driver.KindLock, ID: "g/a"}, {Kind: driver.KindLock, ID: "g/b", Rev: 1},
		}}
	}}, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	for range 2 {
		reply, err := s.List(t.Context(), driver.KindLock, driver.Query{})
		if err != nil || len(reply.Unreadable) != 1 || reply.Unreadable[0].ID != "g/a" {
			t.Fatalf("a document without a revision is usable: %+v, %v", reply, err)
		}
		if len(reply.Docs) != 1 || reply.Docs[0].ID != "g/b" || len(lines) != 1 {
			t.Fatalf("found %+v, logged %q, want one line", reply.Docs, lines)
		}
	}
}

func TestLife(t *testing.T) {
	l := dbstore.NewLife(t.Context(), time.Hour)
	ctx, release := l.Bound(t.Context())
	defer release()
	if end, has := ctx.Deadline(); !has || time.Until(end) > time.Hour {
		t.Errorf("deadline %v, %t", end, has)
	}
	ended := false
	if !l.Go(func() { <-ctx.Done(); ended = true }) || !l.End() || !ended {
		t.Error("the end did not wait for what was begun")
	}
	if !errors.Is(context.Cause(ctx), dbstore.ErrClosed) {
		t.Errorf("ended by %v", context.Cause(ctx))
	}
	if l.Go(func() { t.Error("ran after the end") }) || l.End() {
		t.Error("it ended twice")
	}
}

func TestCluster(t *testing.T) {
	if got, err := dbstore.Cluster(""); got != "default" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := dbstore.Cluster("a b"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
