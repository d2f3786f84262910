package replica

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// Anyone who looks at the events afterwards must see that a list was refused, once for each: the file is looked at
// again and again.
func TestRefusedConfigurationIsAnEvent(t *testing.T) {
	s := settings(t)
	r := New(Config{Settings: s, Metrics: status.NewMetrics(false), Logger: logr.Discard()})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, memory.New()) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for !r.Board().Snapshot().Status.Ready {
		time.Sleep(time.Millisecond)
	}
	refused := func() (messages []string) {
		events, err := r.Events(ctx, status.EventQuery{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Type == "Refused" && e.Reason == api.ProblemConfigInvalid && e.From == s.Instance {
				messages = append(messages, e.Message)
			}
		}
		return messages
	}

	r.Refuse(errors.New("first"))
	r.Refuse(errors.New("first"))
	r.Refuse(errors.New(strings.Repeat("ä", elect.MaxText)))
	var got []string
	for deadline := time.Now().Add(30 * time.Second); len(got) < 2 &&
		time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		got = refused()
	}
	if len(got) != 2 || !strings.HasSuffix(got[1], "first") || len(got[0]) > elect.MaxText {
		t.Errorf("events %q", got)
	}
}
