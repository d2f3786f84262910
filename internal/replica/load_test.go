package replica

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// reporting is a group of ten functions whose weights follow the load that they report.
const reporting = `
  - name: g
    weightFrom: reported
    tasks: [{name: "t{01..10}", callback: work}]
`

// settingsWith are those of a replica with a group.
func settingsWith(t *testing.T, instance, uri, group string) *settings.Settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	text := fmt.Sprintf(`
version: 1
instance: %s
store: {uri: %q}
lease: {duration: 5s}
rebalance: {settle: 500ms}
groups:
%s
`, instance, uri, group)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := config.Load([]string{path}, config.Options{
		Env: os.LookupEnv, Kinds: kinds.All(), Listers: kinds.Listers(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.Settings
}

// report reports loads of all tasks until the test ends: 9 of t07, 1 of the others.
func report(t *testing.T, all []*Replica) {
	t.Helper()
	ended, again := make(chan struct{}), time.NewTicker(50*time.Millisecond)
	go func() {
		defer close(ended)
		for {
			select {
			case <-again.C:
			case <-t.Context().Done():
				return
			}
			for i := range 10 {
				load := 1.0
				if i+1 == 7 {
					load = 9
				}
				for _, r := range all { // the one that does not hold it ignores this
					if err := r.SetLoad(elect.Key(fmt.Sprintf("g/t%02d", i+1)), load); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}()
	t.Cleanup(func() { <-ended })
}

// One task of ten reports nine times the load of any other: the others move away from it, and all replicas show the
// load and the weight.
func TestOthersMoveAwayFromAHotTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := weights.Load.Rules()
		rules.Look, rules.Smooth, rules.Every, rules.Hold = 50*time.Millisecond, 200*time.Millisecond,
			300*time.Millisecond, 300*time.Millisecond
		db := memory.New()
		var all []*Replica
		for _, name := range []string{"a", "b"} {
			all = append(all, startReplica(t, settingsWith(t, name, "sqlite:x.db", reporting), db.Client(), rules, inBubble(t)))
		}
		awaitSnapshots(t, all, "five each", func(s *snapshot.Cluster) bool {
			return s.Status.Groups[0].Running == 10 && ownedBy(s, "a") == 5
		})
		report(t, all)
		awaitSnapshots(t, all, "the hot task has at most two neighbours", func(s *snapshot.Cluster) bool {
			hot := hotIn(s)
			return s.Status.Groups[0].Running == 10 && ownedBy(s, hot.Instance) <= 3 && hot.Weight > 400 &&
				hot.Load != nil && *hot.Load == 9 && s.Status.Groups[0].Weights.From == "reported"
		})
	})
}
