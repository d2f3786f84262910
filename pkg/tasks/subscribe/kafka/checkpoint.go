package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/attempts"
)

// inStore keeps positions in the task's checkpoint. A stale owner's save fails there.
type inStore struct {
	checkpoint subscribe.Checkpoint
	topic, id  string

	mu    sync.Mutex
	marks map[int32]mark
}

// document is the checkpoint's content. Each position is offset and epoch, in short: a topic may have thousands.
type document struct {
	Topic   string             `json:"topic"`
	ID      string             `json:"topicId,omitempty"`
	Offsets map[int32][2]int64 `json:"offsets"`
	// Attempts are JSON of package attempts.
	Attempts map[int32]json.RawMessage `json:"attempts,omitempty"`
}

func (s *inStore) String() string { return "checkpoint" }

func (s *inStore) load(ctx context.Context) (kept, error) {
	value, err := s.checkpoint.Value(ctx)
	if err != nil {
		return kept{}, fmt.Errorf("checkpoint: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = map[int32]mark{}
	if len(value) == 0 {
		return kept{}, nil
	}
	var d document
	if err := json.Unmarshal(value, &d); err != nil {
		return kept{}, fmt.Errorf(
			"checkpoint: is not one of a topic's positions, remove it or give the task another name: %w: %w",
			err, subscribe.ErrStop,
		)
	}
	found := kept{marks: make(map[int32]mark, len(d.Offsets)), topic: d.Topic, id: d.ID}
	for p, o := range d.Offsets {
		found.marks[p] = mark{
			Offset: o[0], Epoch: int32(o[1]), //nolint:gosec // G115: it was one when it was saved
			Attempts: attempts.Parse(string(d.Attempts[p])).String(),
		}
	}
	if d.Topic == s.topic && d.ID == s.id {
		s.marks = maps.Clone(found.marks)
	}
	return found, nil
}

func (s *inStore) save(ctx context.Context, changed map[int32]mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.marks)
	maps.Copy(all, changed)
	d := document{
		Topic: s.topic, ID: s.id, Offsets: make(map[int32][2]int64, len(all)), Attempts: map[int32]json.RawMessage{},
	}
	for p, m := range all {
		if d.Offsets[p] = [2]int64{m.Offset, int64(m.Epoch)}; m.Attempts != "" {
			d.Attempts[p] = json.RawMessage(m.Attempts)
		}
	}
	value, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := s.checkpoint.SetValue(ctx, value); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	s.marks = all
	return nil
}

// renew has nothing to do: a checkpoint does not expire.
func (s *inStore) renew(context.Context) error { return nil }
