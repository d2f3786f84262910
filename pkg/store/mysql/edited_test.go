package mysql_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestEdited(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	edit := func(text string) error {
		text = "USE " + databaseOf(uri) + "; " + text
		return testservers.MariaDBExec(context.WithoutCancel(t.Context()), server.Server(), text)
	}
	update := func(kind driver.Kind, id, set string) error {
		return edit(fmt.Sprintf(`UPDATE default_%s SET %s WHERE id = "%s"`, kind.Info().Plural, set, id))
	}
	e := storetest.Edited{Config: driver.Config{URI: uri}}
	e.Locks, e.Counters = storetest.SQLEdits(update)
	e.Locks = append(e.Locks, storetest.Edit{Name: "no text", Readable: true, Do: func(kind driver.Kind, id string) error {
		return update(kind, id, "session = 0xff")
	}})
	e.Beside = func() []string {
		if err := edit(`INSERT INTO default_locks SELECT '', 1, '', 0, grp, session, next, suspended, state, count, ` +
			`expires, body FROM default_locks WHERE id = 'g/good'`); err != nil {
			t.Fatal(err)
		}
		return []string{""}
	}
	e.Run(t)
}
