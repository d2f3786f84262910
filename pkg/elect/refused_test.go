package elect_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// What a store refuses for half of a lease is an error in the log, once and with the store's sentence: for each kind of
// document that an elector writes. The protocol repeats such writes and says nothing.
func TestRefusedWritesAreLoggedOnce(t *testing.T) {
	lockKey := func(t *testing.T, n *node) {
		t.Helper()
		_, _ = n.Lock(t.Context(), "g/a", newRecorder(t).hold("a"))
	}
	uses := map[driver.Kind]func(t *testing.T, n *node){
		driver.KindSession: func(*testing.T, *node) {},
		driver.KindMember:  func(*testing.T, *node) {},
		driver.KindLock:    lockKey,
		driver.KindGroup:   lockKey,
		driver.KindEvent:   func(_ *testing.T, n *node) { n.Note(record.Event{Type: "Test", Message: "it is"}) },
		driver.KindMutex: func(t *testing.T, n *node) {
			t.Helper()
			_, _ = n.Mutexes().Lock(t.Context(), "m", elect.MutexRequest{MaxHold: time.Second})
		},
	}
	for kind, use := range uses {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var lines []string
				db := memory.New()
				client := db.Client()
				client.Fault(func(call memory.Call) memory.Verdict {
					if slices.ContainsFunc(call.Changes, func(c driver.Change) bool { return c.Doc.Kind == kind }) {
						return memory.Verdict{Fault: memory.LoseRequest}
					}
					return memory.Verdict{}
				})
				n := startNode(t, db, "a", func(c *elect.Config) {
					c.Store = client
					c.Logger = funcr.NewJSON(func(line string) {
						mu.Lock()
						defer mu.Unlock()
						if strings.Contains(line, "again and again") {
							lines = append(lines, line)
						}
					}, funcr.Options{})
				})
				go use(t, n)
				time.Sleep(5 * lease)
				client.Fault(nil)
				time.Sleep(5 * lease)
				n.stop()
				mu.Lock()
				defer mu.Unlock()
				if len(lines) != 1 || !strings.Contains(lines[0], "request lost by a fault") ||
					!strings.Contains(lines[0], "writes of "+kind.Info().Plural) || strings.Contains(lines[0], `"level"`) {
					t.Errorf("logged %q, want one error that says what is refused, and why", lines)
				}
			})
		})
	}
}
