package mqtt

import (
	"context"
	"encoding/json"
	"fmt"
)

// mark is what the checkpoint holds: that there is a session. A session that the broker has dropped is noticed by it.
type mark struct {
	ClientID string `json:"clientID"`
	Filter   string `json:"topic"`
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

// keep keeps the mark.
func (s *subscription) keep(ctx context.Context) error {
	if s.source.QoS == 0 {
		return nil
	}
	value, err := json.Marshal(mark{s.source.ClientID, s.source.Filter})
	if err == nil {
		err = s.session.Checkpoint.SetValue(ctx, value)
	}
	if err != nil {
		return fmt.Errorf("keep that there is a session: %w", err)
	}
	return nil
}
