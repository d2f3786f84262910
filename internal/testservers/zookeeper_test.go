//go:build unix

package testservers_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/shardctl/shardctl/internal/testservers"
)

// A follower that is killed between the snapshot and the epoch of a new leader starts again.
func TestZooKeeperKilledWhileItJoinedALeaderStarts(t *testing.T) {
	ensemble := testservers.StartZooKeepers(t, 3)
	ensemble.Database()
	follower := ensemble.Others(ensemble.Leader())[0]
	follower.Kill()
	site := follower.Server().Site()
	path := site.Path("data/version-2/currentEpoch")
	epoch, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := site.WriteFile("data/version-2/currentEpoch", []byte("0")); err != nil {
		t.Fatal(err)
	}
	follower.Start()
	if repaired, err := os.ReadFile(path); err != nil ||
		!bytes.Equal(bytes.TrimSpace(repaired), bytes.TrimSpace(epoch)) {
		t.Errorf("epoch %q, %v; want %q as before", repaired, err, epoch)
	}
	if !bytes.Contains(site.Output(), []byte("Exiting JVM with code 1")) {
		t.Error("the server did not exit as one does in that state")
	}
}
