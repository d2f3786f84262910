package elect_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// Without a watch all works, only later. So somebody has to be informed, and not twice a second.
func TestWatchThatCannotBeOpenedIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports, tries atomic.Int64
		db := memory.New()
		a := startNode(t, db, "a", func(c *elect.Config) {
			c.Logger = funcr.New(func(_, args string) {
				if strings.Contains(args, "Cannot watch the store") {
					reports.Add(1)
				}
			}, funcr.Options{})
			db.Fault(func(call memory.Call) memory.Verdict { // before the first try
				if call.Op != memory.OpWatch {
					return memory.Verdict{}
				}
				tries.Add(1)
				return memory.Verdict{Fault: memory.LoseRequest}
			})
			c.Store = db
		})
		time.Sleep(2 * lease)
		if reports.Load() != 1 || tries.Load() < 3 {
			t.Errorf("reported %d times of %d tries that failed, want once", reports.Load(), tries.Load())
		}
		a.stop()
	})
}
