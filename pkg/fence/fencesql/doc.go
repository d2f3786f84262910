// Package fencesql is a fence in a SQL database, by database/sql: the token is compared and remembered in the
// transaction that does the work. The marks stand in a table of their own, one row for each key.
//
//	fences, err := fencesql.New(fencesql.PostgreSQL, "fences")
//	…
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	defer func() { _ = tx.Rollback() }()
//	if err := fences.Check(ctx, tx, fence.Exclusive("reports/monthly", lease.Token())); err != nil {
//		return err // another owner has followed, or the database failed
//	}
//	… // the work, by tx
//	return tx.Commit()
//
// [Table.Check] is the first statement of the transaction. It locks the row of its key until the transaction ends, so
// that claims of one key follow one another, and those of other keys do not wait. Readers of one key wait for each
// other as well.
//
// Any isolation level will do. Under REPEATABLE READ or SERIALIZABLE the database may refuse one of two transactions
// at the same time, as it always may then: begin that again.
//
// It imports no driver. It is tested with pgx on PostgreSQL, go-sql-driver/mysql on MariaDB, and modernc.org/sqlite.
package fencesql
