//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Each patch applies to the code as it is. One that does not apply breaks nothing.
func TestPatchesApply(t *testing.T) {
	patches, err := filepath.Glob("*.patch")
	if err != nil || len(patches) < 11 {
		t.Fatalf("%q, %v", patches, err)
	}
	for _, patch := range patches {
		check := exec.CommandContext(t.Context(), "git", "apply", "--check", filepath.Join("test", "broken", patch))
		check.Dir = filepath.Join("..", "..")
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", patch, err, out)
		}
	}
}
