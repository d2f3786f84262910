package lockcommand

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// A command that waits without a limit says why, once: nothing else would.
func TestAWaitSaysWhatTheStoreRefuses(t *testing.T) {
	for _, kind := range []driver.Kind{driver.KindSession, driver.KindMutex} {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New().Client()
			db.Fault(func(call memory.Call) memory.Verdict {
				if slices.ContainsFunc(call.Changes, func(c driver.Change) bool { return c.Doc.Kind == kind }) {
					return memory.Verdict{Fault: memory.LoseRequest}
				}
				return memory.Verdict{}
			})
			var said []string
			r := Run{
				Request: Request{Key: "k"},
				Open:    func(context.Context) (store.Store, error) { return db, nil },
				Elector: elect.Config{
					Member: elect.Member{Instance: "a"}, LeaseDuration: 20 * time.Second, Clock: elect.GoClock(),
				},
				Warn: func(text string) { said = append(said, text) },
			}
			s, err := r.open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Minute, func() { db.Fault(nil) })
			if s.held, err = r.take(t.Context(), mutex.New(s.elector)); err != nil {
				t.Fatal(err)
			}
			if err := s.leave(t.Context(), 20*time.Second, leaveLimit); err != nil {
				t.Error(err)
			}
			if len(said) != 1 || !strings.Contains(said[0], "writes of "+kind.Info().Plural) ||
				!strings.Contains(said[0], "request lost by a fault") {
				t.Errorf("%s: %q", kind, said)
			}
		})
	}
}
