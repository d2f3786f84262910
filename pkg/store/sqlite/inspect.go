package sqlite

import (
	"context"
	"database/sql"
	"strconv"

	"github.com/shardctl/shardctl/pkg/store"
)

// syncNames are the values of PRAGMA synchronous.
var syncNames = map[int]string{0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}

// Inspect implements [sqlstore.Inspector]. With journal_mode=wal only synchronous FULL and EXTRA sync at each commit
// (SQLite's manual, "PRAGMA synchronous").
func (*dialect) Inspect(ctx context.Context, conn *sql.Conn) (store.Inspection, error) {
	var version, journal string
	var level int
	for _, ask := range []struct {
		text string
		into any
	}{
		{`SELECT sqlite_version()`, &version},
		{`PRAGMA journal_mode`, &journal},
		{`PRAGMA synchronous`, &level},
	} {
		if err := conn.QueryRowContext(ctx, ask.text).Scan(ask.into); err != nil {
			return store.Inspection{}, err
		}
	}
	sync, known := syncNames[level]
	if !known {
		sync = strconv.Itoa(level)
	}
	return store.Inspection{
		Server: "SQLite " + version,
		Settings: []store.Setting{
			{Name: "journal_mode", Value: journal, Want: "wal", Holds: journal == "wal", Forgets: true},
			{Name: "synchronous", Value: sync, Want: "FULL or EXTRA", Holds: level >= 2, Forgets: true},
		},
	}, nil
}
