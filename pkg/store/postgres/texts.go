package postgres

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// maxName is how many bytes of a name PostgreSQL keeps (NAMEDATALEN - 1).
const maxName = 63

// clock is the server's clock in Unix ms, as of now and not as of the transaction's begin.
const clock = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// dialect is what PostgreSQL does in its own way. It implements [sqlstore.Dialect].
type dialect struct {
	name    string // for errors
	secrets []string
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
		// Room for the next version of a row in its own page: then an update touches no index (heap-only tuples).
		Table: `WITH (fillfactor = 50)`,
	}
}

// relations counts tables and indexes of a name. Not by to_regclass: within a transaction it may not see yet what
// others have committed.
const relations = `SELECT count(*) FROM pg_catalog.pg_class WHERE relname = ? AND relnamespace IN (` +
	`SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = ANY(current_schemas(false)))`

// ServerTexts implements [sqlstore.Server].
func (dialect) ServerTexts() sqlstore.ServerTexts {
	return sqlstore.ServerTexts{
		Now:       clock,
		Create:    create,
		Increment: increment,
		Notify:    notify,
		Trim: func(log string) string {
			return fmt.Sprintf(`DELETE FROM %[1]s WHERE seq <= (SELECT max(seq) FROM %[1]s) - ?`, log)
		},
	}
}

// noRevision is true of a row that is there for nobody.
func noRevision(row string) string {
	return fmt.Sprintf(`(%[1]s.rev < 1 OR %[1]s.rev > %[2]d)`, row, int64(store.MaxRev))
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

// increment begins anew where the row is there for nobody. A count or a revision that cannot be raised goes on at the
// clock, which nobody knows it at.
func increment(table string, columns []string) string {
	sets := make([]string, 0, len(columns)-1)
	odd := fmt.Sprintf(`old.rev = %[1]d OR old.count < 0 OR old.count >= %[1]d`, int64(store.MaxRev))
	for _, column := range columns[1:] {
		var kept string
		switch column {
		case "rev":
			kept = fmt.Sprintf(`greatest(excluded.rev, 1 + CASE WHEN %s THEN %s ELSE old.rev END)`, odd, clock)
		case "count":
			kept = fmt.Sprintf(`1 + CASE WHEN %s THEN %s ELSE old.count END`, odd, clock)
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

// notify makes the triggers of a table. Their conditions are those of [store.Notable], and are tested before a function
// is called: a heartbeat calls none.
func notify(info store.KindInfo, table, log string) []string {
	prefix := strings.Trim(strings.TrimSuffix(log, `notifications"`), `"`)
	texts := []string{createNote(prefix)}
	for event, condition := range map[string]string{
		"INSERT": conditions[info.Notify][0], "UPDATE": conditions[info.Notify][1], "DELETE": "true",
	} {
		trigger := `"` + prefix + info.Plural + "_" + strings.ToLower(event) + `"`
		texts = append(
			texts, fmt.Sprintf(`DROP TRIGGER IF EXISTS %s ON %s`, trigger, table),
			fmt.Sprintf(`CREATE TRIGGER %s AFTER %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION "%s"('%s')`, trigger,
				event,
				table, condition, noteFunction(prefix), info.Kind),
		)
	}
	return texts
}

// noteFunction is the name of the function that the triggers of a cluster call.
func noteFunction(prefix string) string { return prefix + "note" }

// createNote makes that function, or replaces it.
func createNote(prefix string) string {
	return fmt.Sprintf(`CREATE OR REPLACE FUNCTION "%s"() RETURNS trigger LANGUAGE plpgsql AS $note$
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
	EXECUTE format('INSERT INTO %%I."%snotifications" (kind, id, grp, next) VALUES ($1, $2, $3, $4)', TG_TABLE_SCHEMA)
		USING TG_ARGV[0], named.id, named.grp, reserved;
	IF current_setting('%s', true) IS DISTINCT FROM '%s' THEN
		PERFORM pg_notify('%s', '');
	END IF;
	RETURN NULL;
END $note$`, noteFunction(prefix), prefix, quietSetting, quietOn, channel(prefix))
}

// outdatedNote counts functions of a name that know nothing of a setting.
const outdatedNote = `SELECT count(*) FROM pg_catalog.pg_proc WHERE proname = $1 AND prosrc NOT LIKE $2 AND ` +
	`pronamespace IN (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = ANY(current_schemas(false)))`

// conditions are those of an INSERT and of an UPDATE.
var conditions = map[store.Notify][2]string{
	store.NotifyAlways: {"true", "true"},
	store.NotifyStates: {"true", "OLD.state <> NEW.state OR " + noRevision("OLD")},
	store.NotifyFree:   {"NEW.next <> ''", "NEW.next <> '' OR OLD.session <> '' AND NEW.session = ''"},
}

// channel is where notifications of a cluster's changes go, whose tables have names with this prefix.
func channel(prefix string) string { return prefix + "notifications" }
