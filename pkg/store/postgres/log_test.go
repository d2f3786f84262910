package postgres_test

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// owned is a database whose tables are in a schema of their owner, as docs/stores/postgresql.md sets it up.
type owned struct {
	t             *testing.T
	uri           string
	owner, worker string
}

func newOwned(t *testing.T) *owned {
	t.Helper()
	o := &owned{
		t: t, uri: testservers.Shared(t, testservers.KindPostgres).Database(), owner: testservers.Name(),
		worker: testservers.Name(),
	}
	o.exec(`CREATE ROLE `+o.owner+` LOGIN`, `CREATE ROLE `+o.worker+` LOGIN`,
		`CREATE SCHEMA shardctl AUTHORIZATION `+o.owner, `ALTER ROLE `+o.owner+` SET search_path = shardctl`,
		`ALTER ROLE `+o.worker+` SET search_path = shardctl`)
	return o
}

// as is how a role opens the store.
func (o *owned) as(role string) driver.Config {
	return driver.Config{URI: with(o.t, o.uri, func(u *url.URL) { u.User = url.User(role) })}
}

// exec runs statements as the superuser.
func (o *owned) exec(statements ...string) {
	o.t.Helper()
	all := append([]string{`SET search_path = shardctl`}, statements...)
	if err := postgres.Exec(o.t.Context(), o.uri, all...); err != nil {
		o.t.Fatal(err)
	}
}

// grant has the worker work.
func (o *owned) grant() {
	o.t.Helper()
	o.exec(`GRANT USAGE ON SCHEMA shardctl TO `+o.worker,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shardctl TO `+o.worker)
}

// oldLines have the numbers of a log that is in use for long.
const oldLines = `INSERT INTO default_notifications (kind, id, grp, next) ` +
	`SELECT 'lock', 'g/old', 'g', '' FROM generate_series(1, 3000); ` +
	`DELETE FROM default_notifications WHERE seq <= (SELECT max(seq) FROM default_notifications) - 2000`

const dropLog = `DROP TABLE "default_notifications"`

// logFaults are what somebody does to the log.
var logFaults = map[string]struct {
	before, breaks, told string
	worker               bool   // the user has no more than docs/stores/postgresql.md grants
	query                string // of the URI
}{
	"dropped": {breaks: dropLog},
	"a column without a default": {
		breaks: `ALTER TABLE default_notifications ADD tenant text NOT NULL DEFAULT ''; ` +
			`ALTER TABLE default_notifications ALTER tenant DROP DEFAULT`,
		told: dropLog,
	},
	"no rights": {
		breaks: `REVOKE INSERT ON default_notifications FROM OWNER, WORKER`, worker: true,
		told: `GRANT SELECT, INSERT, UPDATE, DELETE ON "default_notifications" TO `,
	},
	// As on the target of a logical replication, which moves rows and no sequences.
	"numbers begin again": {
		before: oldLines, breaks: `ALTER TABLE default_notifications ALTER seq RESTART WITH 1`,
	},
	"numbers meet old lines": {
		before: oldLines, breaks: `SELECT setval('default_notifications_seq_seq', (SELECT min(seq) + 500 FROM ` +
			`default_notifications))`,
	},
	"numbers begin again for a worker": {
		before: oldLines, breaks: `ALTER TABLE default_notifications ALTER seq RESTART WITH 1`, worker: true,
	},
	"numbers begin again, and watches poll": {
		before: oldLines, breaks: `ALTER TABLE default_notifications ALTER seq RESTART WITH 1`, query: "&pollMillis=20",
	},
	"dropped, and watches poll": {breaks: dropLog, query: "&pollMillis=20"},
	"dropped for a worker":      {breaks: dropLog, worker: true, told: "StoreIncomplete"},
	"dropped with its steps":    {breaks: dropLog + `; DROP TABLE default_steps`},
	"no rights, and watches poll": {
		breaks: `REVOKE ALL ON default_notifications FROM OWNER, WORKER`, worker: true,
		told:  `GRANT SELECT, INSERT, UPDATE, DELETE ON "default_notifications" TO `,
		query: "&pollMillis=20",
	},
}

// A log of notifications that takes no lines, or whose numbers are those of another time, fails no change.
func TestBrokenLog(t *testing.T) {
	for name, fault := range logFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOwned(t)
			c := o.as(o.owner)
			if err := storetest.Open(t, c).Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			o.exec(fault.before)
			if fault.worker {
				o.grant()
				c = o.as(o.worker)
			}
			c.URI += fault.query
			roles := strings.NewReplacer("OWNER", o.owner, "WORKER", o.worker)
			storetest.BrokenLog{
				Config: c, Break: func() { o.exec(roles.Replace(fault.breaks)) }, Told: fault.told,
				Mend: func() {
					switch fault.told {
					case dropLog:
						o.exec(dropLog)
					case "StoreIncomplete":
						storetest.Open(t, o.as(o.owner))
						o.grant()
					default:
						o.exec(fault.told + o.worker)
					}
				},
			}.Run(t)
		})
	}
}

// Neither does one that somebody has to himself, as VACUUM FULL.
func TestHeldLog(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	var release func()
	storetest.BrokenLog{
		Config: driver.Config{URI: uri, Timeout: 6 * time.Second}, Break: func() { release = hold(t, uri, "notifications") },
		Told: "see pg_locks and pg_stat_activity; wait for who has it", Mend: func() { release() },
	}.Run(t)
}

// A transaction is sent once more only where the server has answered that the note alone has failed.
func TestNoteFailed(t *testing.T) {
	const where = `PL/pgSQL function default_note() line 13 at EXECUTE`
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"a column":       {&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "23502", Where: where}, true},
		"a lock":         {&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "55P03", Where: where}, true},
		"a deadlock":     {&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "40P01", Where: where}, false},
		"read-only":      {&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "25006", Where: where}, false},
		"elsewhere":      {&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "23502"}, false},
		"of another":     {&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "23502", Where: "function x()"}, false},
		"session ended":  {&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "57P01", Where: where}, false},
		"no answer":      {io.ErrUnexpectedEOF, false},
		"end of waiting": {context.DeadlineExceeded, false},
	} {
		if got := postgres.NoteFailed(fmt.Errorf("write: %w", tt.err)); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// Indexes, triggers and the function that somebody has dropped or disabled are made again, and a table of documents is
// not.
func TestPieces(t *testing.T) {
	o := newOwned(t)
	owner, worker := o.as(o.owner), o.as(o.worker)
	if err := storetest.Open(t, owner).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.grant()
	storetest.Pieces{
		Config: owner, Denied: &worker, Told: `CREATE INDEX "default_locks_3"`,
		Layout: func(t *testing.T) []string {
			t.Helper()
			return o.names(`SELECT indexdef FROM pg_indexes WHERE schemaname = 'shardctl' UNION ALL ` +
				`SELECT pg_get_triggerdef(oid) || tgenabled::text FROM pg_trigger WHERE NOT tgisinternal UNION ALL ` +
				`SELECT prosrc FROM pg_proc WHERE pronamespace = 'shardctl'::regnamespace ORDER BY 1`)
		},
		Drop: func(t *testing.T) {
			t.Helper()
			for _, text := range o.names(`SELECT format('DROP INDEX %I', indexname) FROM pg_indexes ` +
				`WHERE schemaname = 'shardctl' AND indexname ~ '_[0-9]$'`) {
				o.exec(text)
			}
			o.exec(`ALTER TABLE default_overrides DISABLE TRIGGER ALL`, `DROP TRIGGER default_locks_update ON default_locks`)
		},
		DropTable: func(t *testing.T, kind driver.Kind) {
			t.Helper()
			o.exec(`DROP TABLE default_` + kind.Info().Plural)
		},
	}.Run(t)
	o.exec(`CREATE TABLE default_locks (LIKE default_values INCLUDING ALL)`, `ALTER TABLE default_locks OWNER TO `+o.owner,
		`DROP FUNCTION default_note CASCADE`)
	s := storetest.Open(t, owner)
	notes, err := s.Watch(t.Context(), driver.Interest{})
	if err != nil {
		t.Fatal(err)
	}
	<-notes
	calls.Until(t, s, increment("g"))
	calls.Notified(t, notes, "g")
}

// names are the values of a query's one column.
func (o *owned) names(query string) []string {
	o.t.Helper()
	conn, err := pgx.Connect(o.t.Context(), o.uri)
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = conn.Close(o.t.Context()) }()
	rows, err := conn.Query(o.t.Context(), query)
	if err != nil {
		o.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		o.t.Fatal(err)
	}
	return all
}
