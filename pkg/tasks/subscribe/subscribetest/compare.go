package subscribetest

import (
	"bytes"
	"maps"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// sameAs checks all fields that a broker carries.
func (s *scene) sameAs(got, want subscribe.Message) {
	s.Helper()
	switch {
	case !bytes.Equal(got.Body, want.Body):
		s.Fatalf("%s: the body differs from the published one %s", label(got), label(want))
	case !s.topic.NoKeys && !bytes.Equal(got.Key, want.Key):
		s.Fatalf("%s: the key is %q, want %q", label(got), got.Key, want.Key)
	case s.topic.NoHeaders:
	case got.Type != want.Type:
		s.Fatalf("%s: the type is %q, want %q", label(got), got.Type, want.Type)
	case !maps.Equal(got.Headers, want.Headers):
		s.Fatalf("%s: the headers are %q, want %q", label(got), got.Headers, want.Headers)
	}
}

func bodyIn(messages []subscribe.Message, body []byte) int {
	for i, m := range messages {
		if bytes.Equal(m.Body, body) {
			return i
		}
	}
	return -1
}
