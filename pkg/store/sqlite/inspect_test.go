package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// What is shown is what the connections really have: a commit reaches the disk before it is acknowledged.
func TestInspect(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"), sqlite.Options{})
	got, err := store.Inspect(t.Context(), s)
	if err != nil || !strings.HasPrefix(got.Server, "SQLite 3.") {
		t.Fatalf("server %q, %v", got.Server, err)
	}
	want := map[string]string{"journal_mode": "wal", "synchronous": "FULL"}
	for _, setting := range got.Settings {
		if value := want[setting.Name]; setting.Value != value || !setting.Holds {
			t.Errorf("%+v, want %q, holding", setting, value)
		}
	}
	if len(got.Settings) != len(want) {
		t.Errorf("settings %+v, want %v", got.Settings, want)
	}
}
