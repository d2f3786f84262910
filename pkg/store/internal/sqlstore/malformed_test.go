package sqlstore_test

import (
	"path/filepath"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/pkg/store/storetest"
)

func TestEdited(t *testing.T) {
	c := driver.Config{URI: "sqlite:" + filepath.Join(t.TempDir(), "store.db")}
	editor := storetest.Open(t, c)
	update := func(kind driver.Kind, id, set string) error {
		_, err := sqlstore.Of(editor).DB().ExecContext(t.Context(),
			`UPDATE "default_`+kind.Info().Plural+`" SET `+set+` WHERE id = ?`, id)
		return err
	}
	e := storetest.Edited{Config: c}
	e.Locks, e.Counters = storetest.SQLEdits(update)
	e.Locks = append(e.Locks, storetest.Edit{Name: "no text", Readable: true, Do: func(kind driver.Kind, id string) error {
		return update(kind, id, "session = cast(x'ff' as text)")
	}})
	e.Beside = func() []string {
		exec(t, editor, `INSERT INTO "default_locks" SELECT '', 1, '', 0, grp, session, next, suspended, state, count, `+
			`expires, body FROM "default_locks" WHERE id = 'g/good'`)
		return []string{""}
	}
	e.Run(t)
}

func exec(t *testing.T, s driver.Store, text string) {
	t.Helper()
	if _, err := sqlstore.Of(s).DB().ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}
