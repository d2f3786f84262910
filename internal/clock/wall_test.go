//go:build !testhooks

package clock_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
)

// A program as it is shipped must not have its clock set from outside.
func TestWallHeedsNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock")
	if err := os.WriteFile(file, []byte("7200000"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHARDCTL_TEST_CLOCK_FILE", file)
	if off := time.Until(clock.Wall()); off > time.Minute || off < -time.Minute {
		t.Errorf("the clock is off by %v", off)
	}
}
