//go:build testhooks

package clock

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWallIsOffByWhatTheFileSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock")
	t.Setenv(EnvFile, file)
	for text, want := range map[string]time.Duration{
		"": 0, "7200000\n": 2 * time.Hour, "-3600000": -time.Hour, "72000x": 0,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(Wall()).Round(time.Minute); got != want {
			t.Errorf("%q: off by %v, want %v", text, got, want)
		}
	}
}
