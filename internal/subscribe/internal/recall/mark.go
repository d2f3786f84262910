package recall

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// Mark remembers with the lock that a subscription had a position, and in which topic, where the broker keeps the
// position. What the broker has does not say so: a group that was deleted looks like one that never was, and a topic
// that was made again like the one before. A Mark is for one goroutine.
type Mark struct {
	checkpoint subscribe.Checkpoint
	of         string
	was        *content // what the checkpoint holds of it; nil: nothing
}

// content is the checkpoint's content.
type content struct {
	Of     string `json:"of"`               // what has the position: a topic, and a group
	Origin string `json:"origin,omitempty"` // tells the topic from others of its name; empty: nothing does
}

// ReadMark reads the mark of what has the position, such as "stream orders, group billing". What was remembered of anything
// else does not count.
func ReadMark(ctx context.Context, checkpoint subscribe.Checkpoint, of string) (*Mark, error) {
	value, err := checkpoint.Value(ctx)
	if err != nil {
		return nil, fmt.Errorf("read whether there was a position: %w", err)
	}
	m := &Mark{checkpoint: checkpoint, of: of}
	if c, ok := parse(value); ok && c.Of == of {
		m.was = &c
	}
	return m, nil
}

func parse(value []byte) (c content, ok bool) {
	return c, json.Unmarshal(value, &c) == nil && c.Of != ""
}

// IsMark reports whether a checkpoint holds a mark, and no position.
func IsMark(value []byte) bool {
	_, ok := parse(value)
	return ok
}

// Had says whether there was a position.
func (m *Mark) Had() bool { return m.was != nil }

// Origin is that of the topic in which there was a position; empty: it is not known.
func (m *Mark) Origin() string {
	if m.was == nil {
		return ""
	}
	return m.was.Origin
}

// Keep remembers that there is a position, in the topic of that origin; empty: it has none. It writes what is new only.
func (m *Mark) Keep(ctx context.Context, origin string) error {
	now := content{m.of, origin}
	if m.was != nil && *m.was == now {
		return nil
	}
	value, err := json.Marshal(now)
	if err == nil {
		err = m.checkpoint.SetValue(ctx, value)
	}
	if err != nil {
		return fmt.Errorf("keep that there is a position: %w", err)
	}
	m.was = &now
	return nil
}

// digested is how much of a text counts, in bytes.
const digested = 64 << 10

// Digest is a hash of a message, as it was published and not as a configuration has it read. The message before a
// position tells the topic from another of its name in which the position is there, too.
func Digest(body []byte, fields map[string]string) string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%d,", len(body)) // a hash takes all
	_, _ = sum.Write(body[:min(len(body), digested)])
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		_, _ = fmt.Fprintf(sum, "%q%d,%s", name, len(value), value[:min(len(value), digested)])
	}
	return fmt.Sprintf("%.12x", sum.Sum(nil))
}
