package published

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// text is an entry: one of them makes no sense, and one is more than its cleaner bears.
type text string

func (e text) Cleaned(c *record.Cleaner) text {
	switch e {
	case "odd":
		c.Bad("text", "is odd")
	case "fatal":
		panic("as an index out of range")
	}
	return e
}

// count is what is said of a list.
type count int64

func (n count) Cleaned(c *record.Cleaner) count {
	c.Number("said", (*int64)(&n), 1000)
	return n
}

var at = Place{Space: "~things", Group: "g"}

func TestChunks(t *testing.T) {
	var entries []text
	for i := range 5000 {
		entries = append(entries, text(fmt.Sprintf("topic-%05d-%s", i, strings.Repeat("<", 40))))
	}
	chunks, err := chunksOf(entries)
	if err != nil || len(chunks) < 5 {
		t.Fatal(len(chunks), err)
	}
	h := Head[count]{Revision: 1, count: len(entries), chunks: hashesOf(chunks)}
	bodies := map[string]driver.Doc{}
	for i, body := range chunks {
		if len(body) > driver.MaxBody {
			t.Errorf("a chunk has %d bytes", len(body))
		}
		bodies[at.chunk(1, i)] = driver.Doc{Body: body}
	}
	back, err := entriesFrom[text](at, h, bodies)
	if err != nil || len(back) != len(entries) || back[4321] != entries[4321] {
		t.Fatal(len(back), err)
	}
	bodies[at.chunk(1, 2)] = driver.Doc{Body: append([]byte(" "), chunks[2]...)}
	if back, err := entriesFrom[text](at, h, bodies); !errors.Is(err, ErrBroken) || len(back) == len(entries) {
		t.Error("a list with a changed chunk was read")
	}
	delete(bodies, at.chunk(1, 2))
	if back, err := entriesFrom[text](at, h, bodies); !errors.Is(err, ErrBroken) || len(back) < 3000 {
		t.Error("a list without one of its chunks was read, or nothing of it")
	}
	if chunks, err := chunksOf[text](nil); err != nil || len(chunks) != 0 {
		t.Error(chunks, err)
	}
}

// Lists of two spaces, and of two groups, do not meet. What is noted changes no list.
func TestPlacesAreApart(t *testing.T) {
	db := memory.New()
	places := []Place{at, {Space: "~things", Group: "h"}, {Space: "~others", Group: "g"}}
	for i, place := range places {
		w := NewWriter[text, count](db, place, 7)
		for _, entry := range []text{"first", "second"} {
			b, err := w.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Publish(t.Context(), b, []text{text(place.String()), entry}, count(i)); err != nil {
				t.Fatal(err)
			}
		}
		b, err := w.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Note(t.Context(), b, count(100+i), false); err != nil {
			t.Fatal(err)
		}
	}
	for i, place := range places {
		got, err := NewReader[text, count](db, place).Read(t.Context())
		if err != nil || got.Revision != 2 || got.Status != count(100+i) || len(got.Entries) != 2 ||
			got.Entries[0] != text(place.String()) || got.Entries[1] != "second" {
			t.Errorf("%s: %+v, %v", place, got, err)
		}
	}
}

// put writes a document of the list as somebody would who edits it.
func put(t *testing.T, db store.Store, id, body string) {
	t.Helper()
	found, err := db.Read(t.Context(), driver.KindValue, id)
	if err != nil {
		t.Fatal(err)
	}
	c := driver.Change{Doc: driver.Doc{
		Kind: driver.KindValue, ID: id, Group: at.Space, Rev: found.Floor, WriterID: driver.WriterID{Session: "x", Seq: 1},
		Body: []byte(body),
	}}
	if len(found.Docs) > 0 {
		c.IfRev, c.Doc.Rev = found.Docs[0].Rev, max(found.Floor, found.Docs[0].Rev+1)
	}
	if outs, err := db.Apply(t.Context(), c); err != nil || outs[0].Status != driver.Applied {
		t.Fatal(outs, err)
	}
}

// edited writes a list whose hashes are right, of one chunk.
func edited(t *testing.T, db store.Store, revision int64, said, n, chunk string) {
	t.Helper()
	hashes := hashesOf([][]byte{[]byte(chunk)})
	put(t, db, at.chunk(revision, 0), chunk)
	put(t, db, at.head(), fmt.Sprintf(`{"revision":%d,"count":%s,"hash":%q,"chunks":[%q],"status":%s}`,
		revision, n, hashAll(hashes), hashes[0], said))
}

// Whatever a head or a chunk says, a reader that knows a list keeps it or takes what makes sense, one that knows none
// takes what makes sense, and a writer makes the list whole.
func TestEditedLists(t *testing.T) {
	for what, c := range map[string]struct {
		said, count, chunk string
		want               string // entries; "-": the list is refused
		wrong              error  // nil: any
	}{
		"sound":                         {"7", "2", `["a","b"]`, "a b", nil},
		"more than any slice can have":  {"7", "4611686018427387904", `["a","b"]`, "-", nil},
		"more than any list has":        {"7", "9000000", `["a","b"]`, "-", nil},
		"less than none":                {"7", "-1", `["a","b"]`, "-", nil},
		"more entries than are counted": {"7", "1", `["a","b"]`, "-", ErrBroken},
		"no number":                     {"7", `"2"`, `["a","b"]`, "-", nil},
		"no number of chunks":           {"7", "9e99", `["a","b"]`, "-", nil},
		"one that makes no sense":       {"7", "3", `["a","odd","b"]`, "a b", ErrMalformed},
		"one of another type":           {"7", "3", `["a",{"b":[]},"b"]`, "a b", ErrMalformed},
		"one that panics":               {"7", "3", `["a","fatal","b"]`, "a b", ErrMalformed},
		"no list":                       {"7", "2", `{"a":"b"}`, "-", nil},
		"no JSON":                       {"7", "2", `["a","b"`, "-", nil},
		"said what makes no sense":      {"-7", "2", `["a","b"]`, "a b", ErrMalformed},
	} {
		t.Run(what, func(t *testing.T) {
			db := memory.New()
			w := NewWriter[text, count](db, at, 1)
			b, err := w.Read(t.Context())
			if err == nil {
				err = w.Publish(t.Context(), b, []text{"last"}, 5)
			}
			if err != nil {
				t.Fatal(err)
			}
			knows, begins := NewReader[text, count](db, at), NewReader[text, count](db, at)
			if _, err := knows.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			edited(t, db, 2, c.said, c.count, c.chunk)
			for name, r := range map[string]*Reader[text, count]{"knows": knows, "begins": begins} {
				want := strings.ReplaceAll(c.want, "-", map[string]string{"knows": "last"}[name])
				for range 2 {
					got, err := r.Read(t.Context())
					sound := what == "sound"
					if shown(got.Entries) != want || (err == nil) != sound || !errors.Is(err, c.wrong) && c.wrong != nil {
						t.Errorf("one that %s reads %q, %v; want %q", name, shown(got.Entries), err, want)
					}
				}
			}
			b, err = w.Read(t.Context())
			if err != nil || (b.Broken == nil) != (what == "sound") {
				t.Fatal(b, err)
			}
			if err := w.Publish(t.Context(), b, []text{"next"}, 6); err != nil {
				t.Fatal(err)
			}
			for name, r := range map[string]*Reader[text, count]{"knows": knows, "begins": begins} {
				if got, err := r.Read(t.Context()); err != nil || shown(got.Entries) != "next" || got.Status != 6 {
					t.Errorf("one that %s reads %+v, %v", name, got, err)
				}
			}
		})
	}
}

func shown(entries []text) string {
	words := make([]string, len(entries))
	for i, e := range entries {
		words[i] = string(e)
	}
	return strings.Join(words, " ")
}
