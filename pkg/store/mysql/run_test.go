package mysql_test

import (
	"context"
	"database/sql"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/shardctl/shardctl/pkg/store/mysql"
	"github.com/shardctl/shardctl/test/testservers"
)

// A transaction that the server refused to go on with is not left open on a connection that others use later, also
// where the caller's time is over just then.
func TestNothingLeftOpen(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindMariaDB).Database()
	ctx, cancel := context.WithCancel(t.Context())
	var inside bool
	err := mysql.On(t.Context(), uri, ctx,
		func(ctx context.Context, conn *sql.Conn) error {
			if _, err := conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
				return err
			}
			cancel()
			return &mysqldriver.MySQLError{Number: 1205, Message: "Lock wait timeout exceeded"}
		},
		func(ctx context.Context, conn *sql.Conn) error {
			return conn.QueryRowContext(ctx, "SELECT @@in_transaction").Scan(&inside)
		})
	if err != nil {
		t.Fatal(err)
	}
	if inside {
		t.Error("a connection was used again within the transaction of another call")
	}
}
