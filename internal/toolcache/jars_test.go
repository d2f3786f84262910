//go:build unix

package toolcache

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJarsNameEveryDifference(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"same.jar": "", "other.jar": "x", "more.jar": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	err := Jars{Sums: []byte(empty + "  same.jar\n" + empty + "  other.jar\n" + empty + "  absent.jar\n")}.Verify(dir)
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"other.jar", "more.jar is not in the list", "absent.jar is missing"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
	if strings.Contains(err.Error(), "same.jar") {
		t.Errorf("it complains of what is right: %v", err)
	}
	if err := (Jars{}).Verify(dir); err == nil {
		t.Error("an empty list is met by every directory")
	}
}
