package mysql

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// maxText is how many bytes of statements are sent as one text at most.
const maxText = 8 << 20

// calls is the way to the server.
type calls struct {
	made     *maker
	identity *sqlstore.Identity // of the store, which connections are compared by
	common   *sql.DB
	own      *sql.DB // of the lane of sessions
	database string
	timeout  time.Duration // of calls whose context has no deadline
	textSize int           // bytes of a text of statements, from which on another is begun
	// How often a connection of a lane is given up that the server has answered with an error, see on.
	commonPace, ownPace dbstore.Pace
}

// Query implements [sqlstore.Server]. A server that became read-only is no primary any more and may not know what was
// acknowledged since. So the same text asks for that, behind the queries: a server that takes writes then was the
// primary when they were answered.
func (c *calls) Query(ctx context.Context, lane sqlstore.Lane, queries ...sqlstore.Statement) error {
	return c.on(ctx, lane, func(ctx context.Context, conn *sql.Conn) error {
		var readOnly, engine string
		return run(ctx, conn, append(slices.Clone(queries), sqlstore.Statement{
			Text: `SELECT @@global.read_only, @@innodb_read_only`,
			Row: func(row sqlstore.Row) error {
				if err := row.Scan(&readOnly, &engine); err != nil {
					return err
				}
				if !off(readOnly) || !off(engine) {
					return errReadOnly
				}
				return nil
			},
		}))
	})
}

// Transact implements [sqlstore.Server]. What is longer than one text may be becomes several transactions, each of
// which ends behind a query. When a later one fails, nothing is known of those before.
func (c *calls) Transact(
	ctx context.Context, lane sqlstore.Lane, statements ...sqlstore.Statement,
) ([]int64, error) {
	counts := make([]int64, 0, len(statements))
	err := c.on(ctx, lane, func(ctx context.Context, conn *sql.Conn) error {
		for part := range parts(statements, c.textSize) {
			got, err := transact(ctx, conn, part)
			if err != nil {
				if len(counts) > 0 {
					err = partError{err}
				}
				return err
			}
			counts = append(counts, got...)
		}
		return nil
	})
	return counts, err
}

var errShort = errors.New("the server answered fewer statements than it was sent")

// transact runs statements as one transaction and one text. What each has changed is asked for behind the COMMIT: so an
// answer shows that it succeeded.
func transact(ctx context.Context, conn *sql.Conn, statements []sqlstore.Statement) ([]int64, error) {
	all := make([]sqlstore.Statement, 0, 2*len(statements)+3)
	all = append(all, sqlstore.Statement{Text: `START TRANSACTION`})
	asked := make([]string, len(statements))
	counts, into := make([]int64, len(statements)), make([]any, len(statements))
	for i, st := range statements {
		all = append(all, st)
		asked[i], into[i] = "0", &counts[i]
		if st.Row == nil {
			asked[i] = "@c" + strconv.Itoa(i)
			all = append(all, sqlstore.Statement{Text: `SET ` + asked[i] + ` = ROW_COUNT()`})
		}
	}
	answered := false
	all = append(all, sqlstore.Statement{Text: `COMMIT`}, sqlstore.Statement{
		Text: `SELECT ` + strings.Join(asked, ", "),
		Row: func(row sqlstore.Row) error {
			answered = true
			return row.Scan(into...)
		},
	})
	err := run(ctx, conn, all)
	if err == nil && !answered {
		err = errShort
	}
	return counts, err
}

// parts cuts statements behind queries, into texts of about size bytes.
func parts(statements []sqlstore.Statement, size int) func(yield func([]sqlstore.Statement) bool) {
	return func(yield func([]sqlstore.Statement) bool) {
		from, length := 0, 0
		for i, st := range statements {
			length += lengthOf(st)
			if st.Row == nil || length < size || i == len(statements)-1 {
				continue
			}
			if !yield(statements[from : i+1]) {
				return
			}
			from, length = i+1, 0
		}
		yield(statements[from:])
	}
}

// lengthOf is about how long a statement is as a text, with half of the bytes of its parameters escaped.
func lengthOf(st sqlstore.Statement) int {
	n := len(st.Text)
	for _, arg := range st.Args {
		switch arg := arg.(type) {
		case string:
			n += len(arg) * 3 / 2
		case []byte:
			n += len(arg) * 3 / 2
		default:
			n += 20
		}
	}
	return n
}

// run sends statements as one text and hands the rows over to those that take some.
func run(ctx context.Context, conn *sql.Conn, statements []sqlstore.Statement) error {
	text, args := joined(statements)
	rows, err := conn.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	first := true
	for _, st := range statements {
		if st.Row == nil {
			continue
		}
		if !first && !rows.NextResultSet() {
			return cmp.Or(rows.Err(), errShort)
		}
		first = false
		for rows.Next() {
			if err := st.Row(rows); err != nil {
				return err
			}
		}
	}
	for rows.NextResultSet() { // answers of statements without rows hold nothing but an error
	}
	return errors.Join(rows.Err(), rows.Close())
}

// joined is statements as one text. Texts become literals of bytes, which no character set changes.
func joined(statements []sqlstore.Statement) (string, []any) {
	var b strings.Builder
	var args []any
	for i, st := range statements {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(st.Text)
		for _, arg := range st.Args {
			if text, ok := arg.(string); ok {
				arg = []byte(text)
			}
			args = append(args, arg)
		}
	}
	return b.String(), args
}

// on calls f with a connection. After an error it is used again only if the server said so itself, and if it then takes
// a ROLLBACK: the next START TRANSACTION would commit what is left. And not even then once in the time of a call, unless
// others were in the way: a session keeps what it began with, such as a setting of the server that was wrong for a
// moment.
func (c *calls) on(ctx context.Context, lane sqlstore.Lane, f func(context.Context, *sql.Conn) error) error {
	ctx, cancel := dbstore.Bound(ctx, c.timeout)
	defer cancel()
	db, pace := c.common, &c.commonPace
	if lane == sqlstore.Sessions {
		db, pace = c.own, &c.ownPace
	}
	conn, err := db.Conn(ctx)
	if ctx.Err() != nil && err != nil {
		err = c.made.Late(err)
	}
	if err != nil {
		return explain(err)
	}
	defer func() { _ = conn.Close() }()
	err = f(ctx, conn)
	if err == nil {
		return nil
	}
	if gone(err) {
		c.identity.Doubt()
	}
	_, answered := errors.AsType[*mysql.MySQLError](err)
	if answered && !readOnly(err) {
		// it fails where ctx has ended: what is left must not stay open
		_, rollback := conn.ExecContext(ctx, `ROLLBACK`)
		answered = rollback == nil
	}
	if !answered || readOnly(err) || !dialect("").Busy(err) && pace.Let(time.Now()) {
		_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // never used again
	}
	return explain(err)
}

// Close implements [sqlstore.Server]. That a connection broke before it could say goodbye is no error.
func (c *calls) Close(context.Context) error {
	_, _ = c.common.Close(), c.own.Close()
	c.made.Close()
	return nil
}

// off says whether a variable of the server is off.
func off(value string) bool { return value == "0" || strings.EqualFold(value, "OFF") }

// partError hides what an error is, where earlier parts of the batch were written already.
type partError struct{ err error }

// Error implements error.
func (e partError) Error() string {
	return fmt.Sprintf("after a part of the batch was written: %v", e.err)
}
