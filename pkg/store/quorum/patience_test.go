package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// Servers that are slow are waited for, also while another one is gone: a long list may take them seconds.
func TestSlowServersAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(3)
		s := mustOpen(t, m)
		time.Sleep(time.Second)
		m.mu.Lock()
		for i, clients := range m.clients {
			for _, c := range clients {
				c.Fault(func(memory.Call) memory.Verdict {
					if i == 0 {
						return memory.Verdict{Fault: memory.LoseRequest}
					}
					return memory.Verdict{AnswerDelay: time.Second}
				})
			}
		}
		m.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if outs, err := s.Apply(ctx, put("g/a", 0, 1, 1)); err != nil || outs[0].Status != store.Applied {
			t.Errorf("written: %+v, %v", outs, err)
		}
		if found, err := s.List(ctx, store.KindLock, store.Query{}); err != nil || len(found.Docs) != 1 {
			t.Errorf("listed: %+v, %v", found.Docs, err)
		}
	})
}
