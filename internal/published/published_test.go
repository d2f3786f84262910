package published

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

var at = Place{Space: "~things", Group: "g"}

func TestChunks(t *testing.T) {
	var entries []string
	for i := range 5000 {
		entries = append(entries, fmt.Sprintf("topic-%05d-%s", i, strings.Repeat("<", 40)))
	}
	chunks, err := chunksOf(entries)
	if err != nil || len(chunks) < 5 {
		t.Fatal(len(chunks), err)
	}
	h := Head[int]{Revision: 1, count: len(entries), chunks: hashesOf(chunks)}
	bodies := map[string][]byte{}
	for i, body := range chunks {
		if len(body) > store.MaxBody {
			t.Errorf("a chunk has %d bytes", len(body))
		}
		bodies[at.chunk(1, i)] = body
	}
	back, err := entriesFrom[string](at, h, bodies)
	if err != nil || len(back) != len(entries) || back[4321] != entries[4321] {
		t.Fatal(len(back), err)
	}
	bodies[at.chunk(1, 2)] = append([]byte(" "), chunks[2]...)
	if back, err := entriesFrom[string](at, h, bodies); !errors.Is(err, ErrBroken) || len(back) == len(entries) {
		t.Error("a list with a changed chunk was read")
	}
	delete(bodies, at.chunk(1, 2))
	if back, err := entriesFrom[string](at, h, bodies); !errors.Is(err, ErrBroken) || len(back) < 3000 {
		t.Error("a list without one of its chunks was read, or nothing of it")
	}
	if chunks, err := chunksOf[string](nil); err != nil || len(chunks) != 0 {
		t.Error(chunks, err)
	}
}

// Lists of two spaces, and of two groups, do not meet. What is noted changes no list.
func TestPlacesAreApart(t *testing.T) {
	db := memory.New()
	places := []Place{at, {Space: "~things", Group: "h"}, {Space: "~others", Group: "g"}}
	for i, place := range places {
		w := NewWriter[string, int](db, place, 7)
		for _, entry := range []string{"first", "second"} {
			b, err := w.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Publish(t.Context(), b, []string{place.String(), entry}, i); err != nil {
				t.Fatal(err)
			}
		}
		b, err := w.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Note(t.Context(), b, 100+i, false); err != nil {
			t.Fatal(err)
		}
	}
	for i, place := range places {
		got, err := NewReader[string, int](db, place).Read(t.Context())
		if err != nil || got.Revision != 2 || got.Status != 100+i || len(got.Entries) != 2 ||
			got.Entries[0] != place.String() || got.Entries[1] != "second" {
			t.Errorf("%s: %+v, %v", place, got, err)
		}
	}
}
