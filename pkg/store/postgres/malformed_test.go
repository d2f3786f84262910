package postgres_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestEdited(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	e := storetest.Edited{Config: driver.Config{URI: uri}}
	e.Locks, e.Counters = storetest.SQLEdits(func(kind driver.Kind, id, set string) error {
		id = strings.ReplaceAll(id, "'", "''")
		return postgres.Exec(t.Context(), uri, `UPDATE default_`+kind.Info().Plural+` SET `+set+` WHERE id = '`+id+`'`)
	})
	e.Run(t)
}
