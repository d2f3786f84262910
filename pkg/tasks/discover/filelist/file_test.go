package filelist_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/discover"
	"github.com/shardctl/shardctl/pkg/tasks/discover/filelist"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	env := discover.Env{Lookup: func(string) (string, bool) { return dir, true }}
	for name, content := range map[string]string{
		"a.json": `["a", {"name": "b"}]`, "a.yaml": "- a\n- name: b\n", "a.yml": "[a, b]", "a.txt": "a\nb\n",
		"a": "a\nb",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := filelist.Lister{Path: "$(DIR)/" + name}.List(t.Context(), env)
		if err != nil || len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := (filelist.Lister{Path: large}).List(t.Context(), env); err != nil || len(got) != 0 {
		t.Errorf("an empty file of lines: %v, %v", got, err)
	}
	if err := os.Truncate(large, discover.MaxSize+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"$(DIR)/missing.json": "$(DIR)/missing.json: cannot be read: no such file",
		"$(DIR)":              "is not a regular file",
		"$(DIR)/a.txt.json":   "no such file",
		large:                 "is larger than 16 MiB",
	} {
		_, err := filelist.Lister{Path: path}.List(t.Context(), env)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if err != nil && path != large && strings.Contains(err.Error(), dir) {
			t.Errorf("%s: what a variable brought in is told: %v", path, err)
		}
	}
	if wrong := (filelist.Lister{}).Validate(); len(wrong) != 1 {
		t.Errorf("without a path: %v", wrong)
	}
}
