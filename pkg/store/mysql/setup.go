package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"

	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// setUpWait is for how many seconds one call waits for another client's set-up.
const setUpWait = 1

// SetUp implements [sqlstore.Server]. Each statement is done at once: MySQL commits what makes tables by itself.
// Clients of one server exclude each other by GET_LOCK, which ends with its connection. Between Galera's nodes it does
// nothing; statements that find their table there change nothing, so that a set-up may meet another.
func (c *calls) SetUp(ctx context.Context, name string, f func(run sqlstore.Run) error) error {
	lock := lockName(c.database, name)
	return c.on(ctx, sqlstore.Common, func(ctx context.Context, conn *sql.Conn) error {
		var got sql.NullInt64
		if err := conn.QueryRowContext(ctx, `SELECT GET_LOCK(?, ?)`, lock, setUpWait).Scan(&got); err != nil {
			return err
		}
		if got.Int64 != 1 {
			return errSetUp
		}
		err := f(func(ctx context.Context, statements ...sqlstore.Statement) error {
			for _, st := range statements {
				if err := run(ctx, conn, []sqlstore.Statement{st}); err != nil {
					return err
				}
			}
			return nil
		})
		_, release := conn.ExecContext(ctx, `DO RELEASE_LOCK(?)`, lock)
		return errors.Join(err, release)
	})
}

// lockName is at most 64 bytes long (MySQL's limit). Locks are the server's, not the database's.
func lockName(database, name string) string {
	sum := sha256.Sum256([]byte(database + "/" + name))
	return "shardctl-" + hex.EncodeToString(sum[:16])
}
