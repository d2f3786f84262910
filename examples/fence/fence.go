// Package fence shows the receiving side of a fencing token: a table that rejects a token that is smaller than one it
// has seen.
//
// No lease can rule out that an old run writes once more, after a long pause of its whole machine. The token can: it
// rises with every start of a task, on any replica, for ever. A command has it in SHARDCTL_FENCING_TOKEN, a webhook in
// the header Shardctl-Fencing-Token, and a Go function in Run.Token or Lease.Token.
package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrOldToken says that a newer run has written already.
var ErrOldToken = errors.New("a newer run has written")

// Schema is the table. The token stands in the row that it protects.
const Schema = `CREATE TABLE offsets (topic TEXT PRIMARY KEY, position INTEGER NOT NULL, token INTEGER NOT NULL)`

// SavePosition writes how far a topic has been read, unless a larger token has been seen. It is one statement: nothing
// comes between the comparison and the write. The error wraps [ErrOldToken] when the token is too old.
func SavePosition(ctx context.Context, db *sql.DB, topic string, position, token int64) error {
	result, err := db.ExecContext(ctx, `
		INSERT INTO offsets (topic, position, token) VALUES ($1, $2, $3)
		ON CONFLICT (topic) DO UPDATE SET position = $2, token = $3 WHERE offsets.token <= $3`, topic, position, token)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return fmt.Errorf("save position %d of %s with token %d: %w", position, topic, token, ErrOldToken)
}
