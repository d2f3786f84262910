package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// server is one PostgreSQL, or one cluster of it with a primary.
type server struct {
	dialect

	noting   string        // the function that notes changes, as errors name it
	timeout  time.Duration // of calls whose context has no deadline, as those of a watch
	poll     time.Duration // how often watches look in place of LISTEN and NOTIFY; 0: they are notified
	calls    *pool
	listener *listener
	problems dbstore.Problems
}

// Identity implements [sqlstore.Server].
func (s *server) Identity() *sqlstore.Identity { return &s.calls.connector.identity }

// Problems implements [sqlstore.Server].
func (s *server) Problems() []driver.Problem { return s.problems.All() }

// Look implements [sqlstore.Server].
func (s *server) Look(ctx context.Context) error {
	f, err := s.look(ctx)
	if err == nil {
		s.problems.Looked(f.problems())
	}
	return err
}

// Waits implements [sqlstore.Server]. A COMMIT that waits for a standby holds its rows, and so others find them locked.
// The connections of the pool may all wait themselves.
func (s *server) Waits(ctx context.Context) (string, error) {
	c, err := s.calls.connect(ctx, false)
	if err != nil {
		return "", err
	}
	defer c.drop(ctx)
	var waiting int64
	err = c.conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND `+
		`wait_event = 'SyncRep'`).Scan(&waiting)
	if err != nil || waiting == 0 {
		return "", err
	}
	return fmt.Sprintf("%d transactions wait for a synchronous standby that is away, and hold their rows: bring it back, "+
		"or change synchronous_standby_names", waiting), nil
}

// Query implements [sqlstore.Server]. Queries whose connection turns out to be broken are sent again, up to once on a
// new one.
func (s *server) Query(ctx context.Context, lane sqlstore.Lane, queries ...sqlstore.Statement) error {
	ctx, cancel := dbstore.Bound(ctx, s.timeout)
	defer cancel()
	if s.calls.connector.pooled.Load() {
		queries = append(append([]sqlstore.Statement{s.calls.connector.noLongWait()}, queries...),
			s.calls.connector.lookNow())
	}
	g := &guard{}
	defer g.leave()
	send := func(ctx context.Context, c *connection) ([]pgconn.CommandTag, error) {
		return c.send(ctx, g.rows(queries))
	}
	before := s.calls.made.Load()
	_, err := call(ctx, s.calls, want{lane, true}, send)
	for range s.calls.size() {
		if err == nil || ctx.Err() != nil || !broken(err) || s.calls.made.Load() != before || g.began() {
			break
		}
		_, err = call(ctx, s.calls, want{lane, true}, send)
	}
	return s.explain(err)
}

// noLongWait bounds the wait for a lock behind a pooler, where nothing that was set before holds. It is for those
// queries alone that are sent with it: together they are one transaction.
func (c *connector) noLongWait() sqlstore.Statement {
	return sqlstore.Statement{
		Text: `SELECT set_config('lock_timeout', $1, true)`, Args: []any{c.lockTimeout},
		Row: func(sqlstore.Row) error { return nil },
	}
}

// Transact implements [sqlstore.Server].
func (s *server) Transact(
	ctx context.Context, lane sqlstore.Lane, statements ...sqlstore.Statement,
) ([]int64, error) {
	ctx, cancel := dbstore.Bound(ctx, s.timeout)
	defer cancel()
	g := &guard{}
	defer g.leave()
	same := s.calls.connector.sameStore()
	statements = append(same, statements...)
	counts, err := call(ctx, s.calls, want{lane: lane}, func(ctx context.Context, c *connection) ([]int64, error) {
		return c.transact(ctx, g.rows(statements))
	})
	if err != nil {
		return nil, s.explain(s.calls.connector.other(err))
	}
	return counts[len(same):], nil
}

// SetUp implements [sqlstore.Server]: one transaction, under a lock that ends with it.
func (s *server) SetUp(ctx context.Context, name string, f func(run sqlstore.Run) error) error {
	_, err := call(ctx, s.calls, want{}, func(ctx context.Context, c *connection) (struct{}, error) {
		// At READ COMMITTED whatever the default is: what another set-up has made shows after the wait for it.
		return struct{}{}, pgx.BeginTxFunc(ctx, c.conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(pgx.Tx) error {
			if _, err := c.conn.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockOf(name)); err != nil {
				return err
			}
			return f(func(_ context.Context, statements ...sqlstore.Statement) error {
				_, err := c.send(ctx, statements)
				return err
			})
		})
	})
	return s.explain(err)
}

// lockOf is the number of the advisory lock for a set-up.
func lockOf(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("shardctl set-up of " + name))
	return int64(h.Sum64()) //nolint:gosec // any number will do
}

// Close implements [sqlstore.Server].
func (s *server) Close(ctx context.Context) error {
	s.listener.close()
	return s.calls.close(ctx)
}

// maxName is how many bytes of a name PostgreSQL keeps (NAMEDATALEN - 1).
const maxName = 63

// serverClock is the server's clock in Unix ms, as of now and not as of the transaction's begin.
const serverClock = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// dialect is what PostgreSQL does in its own way. It implements [sqlstore.Dialect].
type dialect struct {
	name    string // for errors
	secrets func() []string
	pooled  *atomic.Bool // set by the first error that only poolers cause
}

var _ sqlstore.Dialect = dialect{}

// String implements [sqlstore.Dialect].
func (d dialect) String() string { return d.name }

// Texts implements [sqlstore.Dialect].
func (dialect) Texts() sqlstore.Texts {
	return sqlstore.Texts{
		Numbered: true,
		Arrays:   true,
		Partial:  true,
		Quote:    `"`,
		MaxName:  maxName,
		Tables:   relations,
		Indexes:  relations,
		Text:     `text COLLATE "C"`,
		Integer:  `bigint`,
		Body:     `bytea`,
		Sequence: `bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY`,
		// Free space for the next version of a row in its own page: then an update touches no index (heap-only tuples).
		Table:     `WITH (fillfactor = 50)`,
		CommentOn: commentOn,
	}
}

// commentOn is one statement, so that it costs one round trip.
func commentOn(table, text string, columns []sqlstore.Column) string {
	var all strings.Builder
	fmt.Fprintf(&all, "DO $comments$ BEGIN\nCOMMENT ON TABLE %s IS '%s';\n", table, text)
	for _, c := range columns {
		fmt.Fprintf(&all, "COMMENT ON COLUMN %s.%s IS '%s';\n", table, c.Name, c.Comment)
	}
	return all.String() + "END $comments$"
}

// relations counts tables and indexes of a name. Not by to_regclass: within a transaction it may not see yet what
// others have committed.
const relations = `SELECT count(*) FROM pg_catalog.pg_class WHERE relname = ? AND relnamespace IN ` + schemas

// ServerTexts implements [sqlstore.Server].
func (dialect) ServerTexts() sqlstore.ServerTexts {
	return sqlstore.ServerTexts{
		Now: serverClock, Create: create, Increment: increment, NoteFunction: createNote, Notify: notify,
		Public: func(table string) string { return `GRANT SELECT ON ` + table + ` TO PUBLIC` },
		Mute:   `SELECT set_config('` + muteSetting + `', '` + settingOn + `', true)`,
		Trim: func(log string) string {
			return fmt.Sprintf(`DELETE FROM %[1]s WHERE seq <= (SELECT max(seq) FROM %[1]s) - ?`, log)
		},
	}
}

// noRevision is true of a row that counts as absent.
func noRevision(row string) string {
	return fmt.Sprintf(`(%[1]s.rev < 1 OR %[1]s.rev > %[2]d)`, row, int64(driver.MaxRev))
}

func create(table string, columns []string) string {
	sets := make([]string, len(columns)-1)
	for i, column := range columns[1:] {
		sets[i] = column + ` = excluded.` + column
	}
	return fmt.Sprintf(
		`INSERT INTO %s AS old (%s) VALUES (%s) ON CONFLICT (id) DO UPDATE SET %s WHERE %s`, table,
		strings.Join(columns, ", "), strings.TrimSuffix(strings.Repeat("?, ", len(columns)), ", "),
		strings.Join(sets, ", "), noRevision("old"),
	)
}

// increment begins at 1 where the row counts as absent. A count or a revision that cannot be raised goes on at the
// clock, which no one has read of it.
func increment(table string, columns []string) string {
	sets := make([]string, 0, len(columns)-1)
	odd := fmt.Sprintf(`old.rev = %[1]d OR old.count < 0 OR old.count >= %[1]d`, int64(driver.MaxRev))
	for _, column := range columns[1:] {
		var kept string
		switch column {
		case "rev":
			kept = fmt.Sprintf(`greatest(excluded.rev, 1 + CASE WHEN %s THEN %s ELSE old.rev END)`, odd, serverClock)
		case "count":
			kept = fmt.Sprintf(`1 + CASE WHEN %s THEN %s ELSE old.count END`, odd, serverClock)
		case "writer_session", "writer_seq":
			kept = `excluded.` + column
		default:
			kept = `old.` + column
		}
		sets = append(sets, fmt.Sprintf(`%[1]s = CASE WHEN %[2]s THEN excluded.%[1]s ELSE %[3]s END`, column,
			noRevision("old"), kept))
	}
	return fmt.Sprintf(
		`INSERT INTO %s AS old (id, rev, writer_session, writer_seq, grp, session, next, suspended, state, count, `+
			`expires, body) VALUES (?, ?, '', 0, '', '', '', 0, '', 1, 0, '') ON CONFLICT (id) DO UPDATE SET %s`, table,
		strings.Join(sets, ", "),
	)
}

// notify makes the triggers of a table. Their conditions are those of [driver.Notable], and are tested before a function
// is called: a heartbeat calls none.
func notify(info driver.KindInfo, table, log string) []sqlstore.Piece {
	prefix := prefixOf(log)
	var all []sqlstore.Piece
	for event, condition := range map[string]string{
		"INSERT": conditions[info.Notify][0], "UPDATE": conditions[info.Notify][1], "DELETE": "true",
	} {
		name := prefix + info.Plural + "_" + strings.ToLower(event)
		all = append(all, sqlstore.Piece{Name: name, Count: triggers, Create: []string{
			fmt.Sprintf(`DROP TRIGGER IF EXISTS "%s" ON %s`, name, table),
			fmt.Sprintf(`CREATE TRIGGER "%s" AFTER %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION "%s"('%s')`, name,
				event, table, condition, noteFunction(prefix), info.Kind),
		}})
	}
	return all
}

// schemas are those whose tables are found by their names alone.
const schemas = `(SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = ANY(current_schemas(false)))`

// triggers counts those of a name that are not disabled.
const triggers = `SELECT count(*) FROM pg_catalog.pg_trigger JOIN pg_catalog.pg_class ON pg_class.oid = tgrelid ` +
	`WHERE tgname = ? AND tgenabled IN ('O', 'A') AND relnamespace IN ` + schemas

// noteFunction is the name of the function that the triggers of a cluster call.
func noteFunction(prefix string) string { return prefix + "note" }

// prefixOf begins the names of a cluster's tables, of which one is the log.
func prefixOf(log string) string { return strings.Trim(strings.TrimSuffix(log, `notifications"`), `"`) }

// createNote makes that function, or replaces it. A line that cannot be written fails the change, which is then sent
// again without it. To catch that here would take a subtransaction for each line: in a batch of 500, writers were 4 to
// 24 % slower and readers beside them 40 %.
func createNote(log string) sqlstore.Piece {
	prefix := prefixOf(log)
	const count = `SELECT count(*) FROM pg_catalog.pg_proc WHERE proname = ? AND pronamespace IN ` + schemas
	text := fmt.Sprintf(`CREATE OR REPLACE FUNCTION "%s"() RETURNS trigger LANGUAGE plpgsql AS $note$
DECLARE
	named record;
	reserved text := '';
BEGIN
	IF TG_OP = 'DELETE' THEN
		named := OLD;
	ELSE
		named := NEW;
		reserved := NEW.next;
	END IF;
	IF current_setting('%s', true) IS DISTINCT FROM '%s' THEN
		EXECUTE format('INSERT INTO %%I."%snotifications" (kind, id, grp, next) VALUES ($1, $2, $3, $4)', TG_TABLE_SCHEMA)
			USING TG_ARGV[0], named.id, named.grp, reserved;
	END IF;
	IF current_setting('%s', true) IS DISTINCT FROM '%s' THEN
		PERFORM pg_notify('%s', '');
	END IF;
	RETURN NULL;
END $note$`, noteFunction(prefix), muteSetting, settingOn, prefix, quietSetting, settingOn, channel(prefix))
	return sqlstore.Piece{Name: noteFunction(prefix), Count: count, Create: []string{text}}
}

// conditions are those of an INSERT and of an UPDATE.
var conditions = map[driver.Notify][2]string{
	driver.NotifyAlways: {"true", "true"},
	driver.NotifyStates: {"true", "OLD.state <> NEW.state OR " + noRevision("OLD")},
	driver.NotifyFree:   {"NEW.next <> ''", "NEW.next <> '' OR OLD.session <> '' AND NEW.session = ''"},
}

// channel is where notifications of a cluster's changes go, whose tables have names with this prefix.
func channel(prefix string) string { return prefix + "notifications" }

// Reasons of [driver.Problem].
const (
	ReasonNotDurable    = "StoreNotDurable"    // a crash may lose what was acknowledged
	ReasonNotReplicated = "StoreNotReplicated" // a failover may lose what was acknowledged
	ReasonPolled        = "StorePolled"        // LISTEN hears nothing
	ReasonUnchecked     = "StoreUnchecked"     // who reads the log is not shown to the user
)

// found is what a server says of itself.
type found struct {
	version, fsync, pages, commit, names string

	standbys int64
	unknown  int64 // of those who read the log, that cannot be told from standbys
}

// readers counts those who read the write-ahead log: standbys, and what cannot be told from them. A standby says up to
// where it has replayed the log. Who may not see that sees replication slots all the same, and what uses one of them to
// stream is a standby unless it is known as a backup program. Logical replication and backups hold no copy that could be
// promoted: to name one in synchronous_standby_names may stop every COMMIT for ever.
const readers = `SELECT count(*) FILTER (WHERE standby), count(*) FILTER (WHERE NOT standby AND NOT other) FROM (` +
	`SELECT other, NOT logical AND (r.replay_lsn IS NOT NULL OR physical AND NOT other) AS standby FROM (` +
	`SELECT r.pid, r.replay_lsn, coalesce(s.slot_type = 'logical', false) AS logical, ` +
	`coalesce(s.slot_type = 'physical', false) AS physical, coalesce(s.slot_type = 'logical', false) OR ` +
	`coalesce(r.state = 'backup', false) OR concat_ws(' ', r.application_name, s.slot_name) ~* ` +
	`'basebackup|receivewal|receivexlog|barman|backup|archiv|pghoard|wal-?g' AS other ` +
	`FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid) AS r) AS readers`

func (s *server) look(ctx context.Context) (found, error) {
	var f found
	err := s.Query(ctx, sqlstore.Common, sqlstore.Statement{
		Text: `SELECT current_setting('server_version'), current_setting('fsync'), ` +
			`current_setting('full_page_writes'), current_setting('synchronous_commit'), ` +
			`current_setting('synchronous_standby_names')`,
		Row: func(row sqlstore.Row) error { return row.Scan(&f.version, &f.fsync, &f.pages, &f.commit, &f.names) },
	}, sqlstore.Statement{
		Text: readers, Row: func(row sqlstore.Row) error { return row.Scan(&f.standbys, &f.unknown) },
	})
	return f, err
}

// Inspect implements [sqlstore.Server].
func (s *server) Inspect(ctx context.Context) (driver.Inspection, error) {
	f, err := s.look(ctx)
	return driver.Inspection{Server: "PostgreSQL " + f.version, Settings: f.settings()}, err
}

func (f found) settings() []driver.Setting {
	commit := f.commit
	if weak(commit) {
		commit = fmt.Sprintf("on in transactions of this store, %s in others", commit)
	}
	names := driver.Setting{Name: "synchronous_standby_names", Value: f.names, Holds: true, Forgets: true}
	if f.standbys > 0 {
		names.Want = "one standby at least that each COMMIT waits for"
		names.Holds = f.names != ""
	}
	return []driver.Setting{
		{Name: "fsync", Value: f.fsync, Want: "on", Holds: f.fsync == "on", Forgets: true},
		{Name: "full_page_writes", Value: f.pages, Want: "on", Holds: f.pages == "on", Forgets: true},
		{Name: "synchronous_commit", Value: commit, Want: "on or remote_apply", Holds: true},
		names,
	}
}

// problems are those that settings make.
func (f found) problems() []driver.Problem {
	var all []driver.Problem
	for _, setting := range f.settings() {
		if setting.Holds {
			continue
		}
		p := driver.Problem{Reason: ReasonNotDurable, Message: fmt.Sprintf(
			"PostgreSQL's %s is %q: a crash may lose what was acknowledged; set it to %s", setting.Name, setting.Value,
			setting.Want,
		)}
		if setting.Name == "synchronous_standby_names" {
			p = driver.Problem{Reason: ReasonNotReplicated, Message: fmt.Sprintf(
				"PostgreSQL has %d standbys and waits for none (synchronous_standby_names is empty): a failover may lose "+
					"what was acknowledged; name one at least that each COMMIT waits for", f.standbys,
			)}
		}
		all = append(all, p)
	}
	if f.unknown > 0 && f.standbys == 0 && f.names == "" {
		all = append(all, driver.Problem{Reason: ReasonUnchecked, Message: fmt.Sprintf(
			"PostgreSQL sends its log to %d clients, and this user cannot tell whether they are standbys or backups: look at "+
				"pg_stat_replication, or grant pg_monitor. Where one is a standby that may be promoted, each COMMIT has to wait "+
				"for one (synchronous_standby_names), or a failover may lose what was acknowledged.", f.unknown,
		)})
	}
	return all
}

// polled says that notifications do not arrive.
func polled() driver.Problem {
	return driver.Problem{Reason: ReasonPolled, Message: fmt.Sprintf(
		"PostgreSQL's notifications do not arrive, as behind a pooler in transaction mode: changes are looked for every %v; "+
			"for less load and delay connect to the server itself, or use session mode", pollEvery,
	)}
}
