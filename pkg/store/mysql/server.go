package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// server is the database that a store is in. It implements [sqlstore.Server].
type server struct {
	dialect
	*calls

	poll     time.Duration
	problems dbstore.Problems
}

var _ sqlstore.Server = (*server)(nil)

// Identity implements [sqlstore.Server].
func (c *calls) Identity() *sqlstore.Identity { return c.identity }

// Problems implements [sqlstore.Server].
func (s *server) Problems() []driver.Problem { return s.problems.All() }

// Look implements [sqlstore.Server].
func (s *server) Look(ctx context.Context) error {
	f, err := s.facts(ctx)
	if err == nil {
		s.problems.Looked(f.problems())
	}
	return err
}

// waiting finds calls of this user that wait for what somebody else holds. Others are hidden from users without the
// right PROCESS.
const waiting = `SELECT state FROM information_schema.processlist WHERE db = database() AND ` +
	`(state LIKE 'Waiting for % lock%' OR state LIKE 'Waiting for semi-sync%') ORDER BY time DESC LIMIT 1`

// Waits implements [sqlstore.Server]. The connections of the pools may all wait themselves.
func (s *server) Waits(ctx context.Context) (string, error) {
	db := pool(connector{s.made, false}, 1)
	defer func() { _ = db.Close() }()
	var state string
	err := db.QueryRowContext(ctx, waiting).Scan(&state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", err
	case strings.Contains(state, "semi-sync"):
		return fmt.Sprintf("the server is %q: a replica is away", state), nil
	}
	return fmt.Sprintf("the server is %q: somebody holds the table, or all of them, as FLUSH TABLES WITH READ LOCK "+
		"and backups do", state), nil
}

// Inspect implements [sqlstore.Server].
func (s *server) Inspect(ctx context.Context) (driver.Inspection, error) {
	f, err := s.facts(ctx)
	if err != nil {
		return driver.Inspection{}, err
	}
	found := driver.Inspection{Server: f.server()}
	for _, j := range f.settings() {
		found.Settings = append(found.Settings, j.Setting)
	}
	return found, nil
}

// Signal implements [sqlstore.Server]: the server sends nothing by itself, so the log is looked into all the time.
func (s *server) Signal(context.Context, string) (sqlstore.Signal, error) {
	return ticks{time.NewTicker(s.poll)}, nil
}

// look refuses a server that cannot keep the promises, and notes what an operator should know.
func (s *server) look(ctx context.Context) error {
	f, err := s.facts(ctx)
	if err != nil {
		return err
	}
	if err := f.refuse(); err != nil {
		return err
	}
	s.problems.Looked(f.problems())
	// Half of what the server takes: the rest is for what the driver adds, and for a body that is escaped.
	s.textSize = min(maxText, int(f.number("max_allowed_packet")/2))
	return nil
}

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

// ticks says at intervals that it is time to look.
type ticks struct{ *time.Ticker }

// Wait implements [sqlstore.Signal].
func (t ticks) Wait(ctx context.Context) error {
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements [sqlstore.Signal].
func (t ticks) Close() { t.Stop() }

// dialect is what the database does in its own way: the name by which errors call it. It implements [sqlstore.Dialect].
type dialect string

var _ sqlstore.Dialect = dialect("")

// String implements [sqlstore.Dialect].
func (d dialect) String() string { return string(d) }

// Texts implements [sqlstore.Dialect]. Texts are bytes to the database: collations would take some different ids for
// one, and many ignore blanks at the end. An index has at most 3,072 bytes (InnoDB, pages of 16 KiB), so that two
// texts fit. BLOB would be one byte short of [driver.MaxBody].
func (dialect) Texts() sqlstore.Texts {
	return sqlstore.Texts{
		Ranges:  true,
		Inline:  true,
		Quote:   "`",
		MaxName: 64,
		Tables:  `SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = ?`,
		Indexes: `SELECT count(*) FROM information_schema.statistics WHERE table_schema = database() AND ` +
			`index_name = ? AND seq_in_index = 1`,
		Text:     `VARBINARY(` + strconv.Itoa(driver.MaxText) + `)`,
		Integer:  `BIGINT`,
		Body:     `MEDIUMBLOB`,
		Sequence: `BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY`,
		Table:    `ENGINE=InnoDB ROW_FORMAT=DYNAMIC`,
		Comment:  func(text string) string { return ` COMMENT '` + text + `'` },
	}
}

// now is the server's clock in Unix ms. The connection's time zone is UTC, where no hour comes twice.
const now = `CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)`

// ServerTexts implements [sqlstore.Server].
func (dialect) ServerTexts() sqlstore.ServerTexts {
	return sqlstore.ServerTexts{Now: now, Create: create, Increment: increment, Note: note, Trim: trim}
}

// create writes rev last: assignments are made from left to right, and the condition is on the old one.
func create(table string, columns []string) string {
	sets := make([]string, 0, len(columns))
	for _, c := range append(columns[2:len(columns):len(columns)], columns[1]) {
		sets = append(sets, fmt.Sprintf("%s = IF(rev < 1 OR rev > %d, VALUES(%s), %s)", c, int64(driver.MaxRev), c, c))
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(columns)), ", ")
	return `INSERT INTO ` + table + ` (` + strings.Join(columns, ", ") + `) VALUES (` + marks +
		`) ON DUPLICATE KEY UPDATE ` + strings.Join(sets, ", ")
}

// increment goes on at the clock where somebody edited a number so that it cannot be raised.
func increment(table string, columns []string) string {
	return strings.NewReplacer("$max", strconv.FormatInt(driver.MaxRev, 10), "$now", now, "$table", table, "$columns",
		strings.Join(columns, ", ")).Replace(
		`INSERT INTO $table ($columns) VALUES (?, ?, '', 0, '', '', '', 0, '', 1, 0, '') ON DUPLICATE KEY UPDATE ` +
			`rev = CASE WHEN rev < 1 OR rev > $max THEN VALUES(rev) ` +
			`WHEN rev = $max OR count < 0 OR count >= $max THEN GREATEST($now + 1, VALUES(rev)) ` +
			`ELSE GREATEST(rev + 1, VALUES(rev)) END, ` +
			`count = IF(count < 0 OR count >= $max, $now + 1, count + 1), writer_session = '', writer_seq = 0`)
}

// trim names the table within another query, since MySQL deletes from no table that its condition reads.
func trim(log string) string {
	return `DELETE FROM ` + log + ` WHERE seq <= (SELECT last FROM (SELECT max(seq) - ? AS last FROM ` + log +
		`) AS newest)`
}

// note is a line of the log for what [driver.Notable] says watchers are notified of, and a few more: it does not know
// the document as it was before. The line is written if the document is as the change leaves it.
func note(c driver.Change, table, log string) (before, after []sqlstore.Statement) {
	into := `INSERT INTO ` + log + ` (kind, id, grp, next) SELECT `
	d := c.Doc
	if c.Op == driver.Delete {
		if d.Kind.Info().Notify == driver.NotifyNever {
			return nil, nil
		}
		return nil, []sqlstore.Statement{{
			Text: into + `?, ?, '', '' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM ` + table + ` WHERE id = ?)`,
			Args: []any{string(d.Kind), d.ID, d.ID},
		}}
	}
	line := sqlstore.Statement{
		Text: into + `?, id, grp, next FROM ` + table + ` WHERE id = ? AND rev = ?`,
		Args: []any{string(d.Kind), d.ID, d.Rev},
	}
	switch d.Kind.Info().Notify {
	case driver.NotifyAlways:
		if c.Op == driver.Increment {
			line.Text, line.Args = into+`?, ?, '', ''`, []any{string(d.Kind), d.ID}
		}
		return nil, []sqlstore.Statement{line}
	case driver.NotifyFree:
		if d.Next != "" || d.Session == "" && c.IfRev > 0 {
			return nil, []sqlstore.Statement{line}
		}
	case driver.NotifyStates:
		if d.State != driver.StateLive || c.IfRev == 0 {
			return nil, []sqlstore.Statement{line}
		}
		// Nearly always a heartbeat, which is not noted. A document at IfRev has the state that it had when it was
		// written.
		return []sqlstore.Statement{{
			Text: line.Text + ` AND state <> ?`, Args: []any{string(d.Kind), d.ID, c.IfRev, d.State},
		}}, nil
	case driver.NotifyNever:
	}
	return nil, nil
}
