package mqtt

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// mark is what the checkpoint holds: that there is a session. A session that the broker has dropped is noticed by it.
type mark struct {
	ClientID string `json:"clientID"`
	Filter   string `json:"topic"`
	// Attempts at messages that were not acknowledged are JSON of package attempts, by IDs.
	Attempts json.RawMessage `json:"attempts,omitempty"`
}

// kept is the mark of the session; nil: there is none. Quality of service 0 has no session.
func (s *subscription) kept(ctx context.Context) (*mark, error) {
	if s.source.QoS == 0 {
		return nil, nil //nolint:nilnil // nothing was kept, and nothing is wrong
	}
	value, err := s.session.Checkpoint.Value(ctx)
	if err != nil {
		return nil, fmt.Errorf("read whether there is a session: %w", err)
	}
	var m mark
	_ = json.Unmarshal(value, &m) // what is no mark names no session
	if m.ClientID != s.source.ClientID {
		return nil, nil //nolint:nilnil // nothing is known of a session of this name
	}
	return &m, nil
}

// KeepDelivered keeps attempts in the checkpoint. With quality of service 0 no message comes again.
func (s *subscription) KeepDelivered(ctx context.Context, messages []subscribe.Message) error {
	now := map[string]int{}
	for _, m := range messages {
		now[m.ID] = m.Delivered
	}
	s.attempts.Update(now)
	return s.keep(ctx)
}

// forget drops the attempts at messages that are acknowledged. The checkpoint has them until it is written again.
func (s *subscription) forget(messages []subscribe.Message) {
	s.attempts.Drop(func(name string) bool {
		return slices.ContainsFunc(messages, func(m subscribe.Message) bool { return m.ID == name })
	})
}

// keep keeps the mark, and attempts.
func (s *subscription) keep(ctx context.Context) error {
	if s.source.QoS == 0 {
		return nil
	}
	value, err := json.Marshal(mark{s.source.ClientID, s.source.Filter, json.RawMessage(s.attempts.String())})
	if err == nil {
		err = s.session.Checkpoint.SetValue(ctx, value)
	}
	if err != nil {
		return fmt.Errorf("keep that there is a session: %w", err)
	}
	return nil
}
