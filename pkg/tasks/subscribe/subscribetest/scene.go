package subscribetest

import "testing"

// scene is one check on one topic.
type scene struct {
	calls
	*traffic
	*owners
}

func newScene(t *testing.T, r reporter, topic Topic) *scene {
	t.Helper()
	on := &traffic{t: t, topic: topic, book: newLedger()}
	return &scene{calls{r}, on, &owners{calls: calls{r}, traffic: on, id: NewIdentity(), store: NewStore(nil)}}
}
