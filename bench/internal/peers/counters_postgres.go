//go:build linux

package peers

import (
	"context"
	"database/sql"
)

// postgresRows counts rows that were written, and transactions that ended, in the database of a connection.
func postgresRows(ctx context.Context, db *sql.DB) (r rates, err error) {
	const counts = `SELECT tup_inserted + tup_updated + tup_deleted, xact_commit + xact_rollback
		FROM pg_stat_database WHERE datname = current_database()`
	err = db.QueryRowContext(ctx, counts).Scan(&r.writes, &r.reads)
	return r, err
}
