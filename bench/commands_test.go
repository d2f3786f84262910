//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A page is refused before anything is measured, and stays as it is.
func TestPeersRefusesToWriteAQuickRun(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"peers", "-quick", "-write", page}, &out, &errs); code != 2 {
		t.Errorf("code %d, want 2", code)
	}
	if text := errs.String(); !strings.Contains(text, "-write refuses -quick") || out.Len() > 0 {
		t.Errorf("it says %q, and prints %q", text, &out)
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != "text\n" {
		t.Errorf("the page is %q: %v", got, err)
	}
}
