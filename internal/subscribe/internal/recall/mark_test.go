package recall_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/pkg/elect"
)

func read(t *testing.T, store *subscribetest.Store, token int64, of string) *recall.Mark {
	t.Helper()
	m, err := recall.ReadMark(t.Context(), store.Checkpoint(token), of)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A mark is of one topic and group, and is written when it changes only.
func TestMark(t *testing.T) {
	store := subscribetest.NewStore(nil)
	if m := read(t, store, 1, "a"); m.Had() || m.Origin() != "" {
		t.Error("nothing was kept, and there was a position")
	}
	keep := func(token int64, of, from string, want int) {
		t.Helper()
		m := read(t, store, token, of)
		for range 2 {
			if err := m.Keep(t.Context(), from); err != nil {
				t.Fatal(err)
			}
		}
		if _, sets := store.Held(); sets != want || !m.Had() || m.Origin() != from {
			t.Errorf("%d writes, want %d", sets, want)
		}
	}
	keep(2, "a", "1", 1)
	keep(3, "a", "1", 1)
	keep(4, "a", "2", 2)
	if m := read(t, store, 5, "b"); m.Had() || m.Origin() != "" {
		t.Error("the position of another topic counts")
	}
	keep(6, "b", "", 3)
	value, _ := store.Held()
	if !recall.IsMark(value) {
		t.Errorf("%s is no mark", value)
	}
}

// What other sources keep is no mark.
func TestOtherContent(t *testing.T) {
	for _, value := range []string{
		"", "{", "[1]", "7", `{"stream":"s","next":4}`, `{"topic":"t","offsets":{}}`, `{"of":""}`,
	} {
		if recall.IsMark([]byte(value)) || read(t, subscribetest.NewStore([]byte(value)), 1, "").Had() {
			t.Errorf("%s is a mark", value)
		}
	}
}

// A stale owner marks nothing.
func TestStaleOwner(t *testing.T) {
	store := subscribetest.NewStore(nil)
	stale := read(t, store, 1, "a")
	read(t, store, 2, "a")
	if err := stale.Keep(t.Context(), "1"); !errors.Is(err, elect.ErrLeaseLost) || stale.Had() {
		t.Errorf("%v", err)
	}
	if _, err := recall.ReadMark(t.Context(), store.Checkpoint(1), "a"); !errors.Is(err, elect.ErrLeaseLost) {
		t.Errorf("%v", err)
	}
}

// Whatever a message says makes it another one.
func TestDigest(t *testing.T) {
	fields := map[string]string{"a": "b", "c": "d"}
	body := bytes.Repeat([]byte("x"), 100<<10)
	is := recall.Digest(body, fields)
	if recall.Digest(slices.Clone(body), maps.Clone(fields)) != is {
		t.Error("the same message is another one")
	}
	other := slices.Clone(body)
	other[0] = 'y'
	for name, digest := range map[string]string{
		"body":       recall.Digest(other, fields),
		"length":     recall.Digest(body[1:], fields),
		"value":      recall.Digest(body, map[string]string{"a": "c", "c": "d"}),
		"fewer":      recall.Digest(body, map[string]string{"a": "b"}),
		"names":      recall.Digest(body, map[string]string{"ab": "", "c": "d"}),
		"boundaries": recall.Digest(body, map[string]string{"a": "b\"c\"1,d"}),
		"no body":    recall.Digest(nil, fields),
	} {
		if digest == is {
			t.Errorf("%s: the same message", name)
		}
	}
}
