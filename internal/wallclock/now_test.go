//go:build !testhooks

package wallclock_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/wallclock"
)

// A program as it is shipped must not have its clock set from outside.
func TestNowHeedsNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock")
	if err := os.WriteFile(file, []byte("7200000"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHARDCTL_TEST_CLOCK_FILE", file)
	if off := time.Until(wallclock.Now()); off > time.Minute || off < -time.Minute {
		t.Errorf("the clock is off by %v", off)
	}
}
