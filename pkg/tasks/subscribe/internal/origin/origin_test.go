package origin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/origin"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest"
)

func read(t *testing.T, store *subscribetest.Store, token int64, of string) *origin.Mark {
	t.Helper()
	m, err := origin.Read(t.Context(), store.Checkpoint(token), of)
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
	if !origin.Is(value) {
		t.Errorf("%s is no mark", value)
	}
}

// What other sources keep is no mark.
func TestOtherContent(t *testing.T) {
	for _, value := range []string{"", "{", "[1]", "7", `{"stream":"s","next":4}`, `{"topic":"t","offsets":{}}`, `{"of":""}`} {
		if origin.Is([]byte(value)) || read(t, subscribetest.NewStore([]byte(value)), 1, "").Had() {
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
	if _, err := origin.Read(t.Context(), store.Checkpoint(1), "a"); !errors.Is(err, elect.ErrLeaseLost) {
		t.Errorf("%v", err)
	}
}

// Whatever a publisher says of a message makes it another one, and nothing else does.
func TestDigest(t *testing.T) {
	at := time.Unix(1, 2)
	message := func(change func(*subscribe.Message)) subscribe.Message {
		m := subscribe.Message{
			ID: "s/1", Key: []byte("k"), Type: "text/plain", Body: make([]byte, 100<<10), Time: at,
			Headers: map[string]string{"a": "b", "c": "d"},
		}
		change(&m)
		return m
	}
	is := origin.Digest(message(func(*subscribe.Message) {}))
	for name, change := range map[string]func(*subscribe.Message){
		"key":      func(m *subscribe.Message) { m.Key = nil },
		"type":     func(m *subscribe.Message) { m.Type = "" },
		"body":     func(m *subscribe.Message) { m.Body[0] = 1 },
		"length":   func(m *subscribe.Message) { m.Body = m.Body[1:] },
		"time":     func(m *subscribe.Message) { m.Time = at.Add(1) },
		"header":   func(m *subscribe.Message) { m.Headers["a"] = "c" },
		"headers":  func(m *subscribe.Message) { delete(m.Headers, "a") },
		"its name": func(m *subscribe.Message) { m.Headers = map[string]string{"ab": "", "c": "d"} },
	} {
		if origin.Digest(message(change)) == is {
			t.Errorf("%s: the same message", name)
		}
	}
	if origin.Digest(message(func(m *subscribe.Message) { m.Again, m.Delivered, m.Partition = true, 3, "x" })) != is {
		t.Error("what a broker says of it makes it another one")
	}
}
