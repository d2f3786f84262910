package replica

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/guard/worker"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/test/suites"
)

// A command that uses a processor weighs more than one that sleeps, by what a real guard measures of both.
func TestWeightsFollowProcessorTime(t *testing.T) {
	if !wire.IsWorker() {
		suites.Need(t, suites.Processes, "real processes")
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), envGuard+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	client, err := worker.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	rules := weights.Load.Rules()
	rules.Look, rules.Smooth, rules.Every, rules.Hold = 500*time.Millisecond, 200*time.Millisecond,
		300*time.Millisecond, 300*time.Millisecond
	rules.Worth = -1 // one replica alone has all of the load, and no more than the mean
	uri := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	s := settingsWith(t, "a", uri, `
  - name: g
    weightFrom: cpu
    tasks:
      - {name: burns, exec: {command: [sh, -c, "while :; do :; done"]}}
      - {name: sleeps, exec: {command: [sleep, "1000"]}}
`)
	s.Lease.Duration = time.Minute // a busy machine may stop both processes for seconds
	if err := client.Hello(s.Lease.Duration, s.Shutdown.Timeout); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), s.StoreConfig(logr.Discard()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	r := startReplica(t, s, db, rules, func(c *Config) {
		c.Guard = worker.NewReplica(client, nil, worker.Leases{Remote: s.Lease.Duration}, logr.Discard())
	})
	awaitSnapshots(t, []*Replica{r}, "what burns weighs ten times what sleeps", func(s *snapshot.Cluster) bool {
		if len(s.Tasks.All()) != 2 {
			return false
		}
		burns, sleeps := s.Tasks.All()[0], s.Tasks.All()[1]
		return burns.Name == "burns" && burns.Weight >= 10*sleeps.Weight && burns.Load != nil && *burns.Load > 0 &&
			sleeps.Load != nil && s.Status.Groups[0].Weights.From == "cpu"
	})
}
