package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// schemaVersion is that of the layout. Programs that know another one refuse the database. Steps do not change it.
const schemaVersion = 2

// lastStep is the number of the newest step. A step adds what does not affect older programs: a table, an index, a
// function. What a released step makes never changes. The table of steps has the numbers of those that were taken.
const lastStep = 7

// addedBy are the steps of tables and indexes that came after the first layout, by their names without prefix.
var addedBy = map[string]int{"mutexes": 2, "requests": 3, "locks_3": 4, "identity": identityStep}

// quietStep replaces the function that notes changes by one that knows quiet clients, and muteStep by one that knows
// changes that are not noted. That makes the row that counts them, too.
const (
	quietStep = 5
	muteStep  = 7
)

// piece is a table, an index, a trigger or a function that a step makes, where it is missing. Databases that were made
// before steps were recorded have some of them. Without a name it is made in any case.
type piece struct {
	Piece
	step int
	docs bool // a table of documents: one that was made is never made again
}

// schemaStatements are the texts that find and make the tables of a cluster.
type schemaStatements struct {
	name, steps              string // of the tables that hold the version and the steps
	version, step, identity  string
	setVersion, record, keep string // keep makes the table of steps
	pieces                   []piece
}

func newSchemaStatements(w writing, d Dialect) schemaStatements {
	meta, steps, log := w.name("schema"), w.name("steps"), w.name("notifications")
	st := schemaStatements{
		name:       w.prefix + "schema",
		steps:      w.prefix + "steps",
		version:    w.fill(meta, `SELECT version FROM $table`),
		setVersion: w.fill(meta, `INSERT INTO $table (one, version) VALUES (1, ?)`),
		step:       w.fill(steps, `SELECT coalesce(max(step), 0) FROM $table`),
		identity:   w.fill(w.name("identity"), `SELECT uuid FROM $table`),
		record:     w.fill(steps, `INSERT INTO $table (step) VALUES (?)`),
		keep:       w.fill(steps, `CREATE TABLE IF NOT EXISTS $table (step $integer NOT NULL PRIMARY KEY) $options`),
	}
	st.pieces = []piece{
		w.table("schema", `one $integer PRIMARY KEY CHECK (one = 1), version $integer NOT NULL`),
		w.table("notifications", `seq $sequence, kind $text NOT NULL, id $text NOT NULL, grp $text NOT NULL, `+
			`next $text NOT NULL`),
	}
	var texts ServerTexts
	if server, ok := d.(Server); ok {
		texts = server.ServerTexts()
	}
	st.pieces = append(st.pieces, w.notePieces(texts, log, steps)...)
	for _, info := range driver.Table() {
		if info.Kind == driver.KindGroup {
			info.Indexes = append(info.Indexes, []driver.Field{driver.FieldRev})
		}
		made := w.kind(info)
		if info.Notify != driver.NotifyNever && texts.Notify != nil {
			for _, trigger := range texts.Notify(info, w.name(info.Plural), log) {
				made = append(made, piece{Piece: trigger, step: made[0].step})
			}
		}
		st.pieces = append(st.pieces, made...)
	}
	st.pieces = append(st.pieces, w.identityPieces(texts.Public)...)
	for i := range st.pieces {
		st.pieces[i].Count = w.texts.numbered(st.pieces[i].Count)
	}
	return st
}

// notePieces are the function that notes changes, where there is one, and the row that counts those that are not noted.
func (w writing) notePieces(texts ServerTexts, log, steps string) (all []piece) {
	if texts.NoteFunction != nil {
		note := texts.NoteFunction(log)
		again := Piece{Create: note.Create}
		all = append(all, piece{Piece: note, step: 1}, piece{Piece: again, step: quietStep},
			piece{Piece: again, step: muteStep})
	}
	all = append(all, piece{step: muteStep, Piece: Piece{Create: []string{
		w.fill(steps, `INSERT INTO $table (step) SELECT -1 FROM (SELECT min(step) AS lowest FROM $table) AS taken `+
			`WHERE lowest > 0`),
	}}})
	return all
}

// table is a table with its columns.
func (w writing) table(name, columns string) piece {
	return piece{step: max(1, addedBy[name]), Piece: Piece{w.prefix + name, w.texts.Tables, []string{
		w.fill(w.name(name), `CREATE TABLE IF NOT EXISTS $table (`+columns+`) $options`),
	}}}
}

// comment is what stands behind a definition to explain it.
func (w writing) comment(text string) string {
	if w.texts.Comment == nil {
		return ""
	}
	return w.texts.Comment(text)
}

// kind is the table of a kind, and its indexes. With Texts.Inline those of the same step come with the table, so that a
// set-up that ends between them leaves no table without its indexes.
func (w writing) kind(info driver.KindInfo) []piece {
	inline, indexes := "", []piece(nil)
	for i, fields := range info.Indexes {
		name := fmt.Sprintf("%s_%d", info.Plural, i+1)
		on := w.name(name) + ` %s(` + w.on(fields)
		step := max(1, addedBy[info.Plural], addedBy[name])
		if w.texts.Inline && addedBy[name] == 0 {
			inline += `, INDEX ` + fmt.Sprintf(on, "")
		}
		indexes = append(indexes, piece{step: step, Piece: Piece{
			w.prefix + name, w.texts.Indexes,
			[]string{w.fill(w.name(info.Plural), `CREATE INDEX `+fmt.Sprintf(on, "ON $table "))},
		}})
	}
	columns := make([]string, len(documentColumns))
	for i, c := range documentColumns {
		columns[i] = c.Name + " " + c.definition + w.comment(c.Comment)
	}
	table := w.table(info.Plural, strings.Join(columns, ", ")+inline)
	table.Create[0] += w.comment(info.Comment)
	if w.texts.CommentOn != nil {
		table.Create = append(table.Create, w.texts.CommentOn(w.name(info.Plural), info.Comment, documentColumns))
	}
	table.docs = true
	return append([]piece{table}, indexes...)
}

// Column is a column of a table of documents.
type Column struct {
	Name, Comment string

	definition string
}

// documentColumns are those of every table of documents. People read the comments, also those of a dump; they hold no
// quotation marks.
var documentColumns = []Column{
	{"id", "of a lock: group/task; of a session: its UUID; else the name of the document", `$text NOT NULL PRIMARY KEY`},
	{"rev", "revision, which rises with each write; of a lock, never below its fencing token", `$integer NOT NULL`},
	{"writer_session", "session of the last writer", `$text NOT NULL`},
	{"writer_seq", "number of that write within its session", `$integer NOT NULL`},
	{"grp", "group of the key", `$text NOT NULL`},
	{"session", "session that owns the key; empty: none does", `$text NOT NULL`},
	{"next", "session for which the key is reserved", `$text NOT NULL`},
	{"suspended", "1 while an operator has paused the key", `$integer NOT NULL`},
	{"state", "of a session: live, draining or dead", `$text NOT NULL`},
	{"count", "value of a counter", `$integer NOT NULL`},
	{"expires", "Unix ms from which on the row may be deleted; 0: never", `$integer NOT NULL`},
	{"body", "the rest of the document as JSON; change it with shardctl commands only", `$body NOT NULL`},
}

// on is the end of a CREATE INDEX. Only what expires is in an index on that, so that heartbeats do not touch it.
func (w writing) on(fields []driver.Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = columnOf[f]
	}
	text := strings.Join(names, ", ") + `)`
	if fields[0] == driver.FieldExpires && w.texts.Partial {
		text += ` WHERE expires > 0`
	}
	return text
}

// schema is the tables of one cluster.
type schema struct {
	*core
	database database
}

// setUp takes the steps that were not taken yet, and refuses tables of another version. Several processes may do so at
// once: the first one does it, the others find it done. Then all steps are taken.
func (s *schema) setUp(ctx context.Context) (taken int, err error) {
	_, taken, err = s.look(ctx, s.query)
	if err != nil || taken >= lastStep {
		return taken, err
	}
	return lastStep, s.database.setUp(ctx, func(run Run) error {
		version, taken, err := s.look(ctx, run) // another process may have been faster
		if err == nil && taken < lastStep {
			err = run(ctx, Statement{Text: s.sql.schema.keep})
		}
		for step := taken + 1; err == nil && step <= lastStep; step++ {
			if err = s.take(ctx, run, step); err == nil && version == 0 {
				version = schemaVersion
				err = run(ctx, Statement{Text: s.sql.schema.setVersion, Args: []any{int64(version)}})
			}
			if err == nil {
				err = run(ctx, Statement{Text: s.sql.schema.record, Args: []any{int64(step)}})
			}
		}
		return err
	})
}

// take makes what is missing of a step.
func (s *schema) take(ctx context.Context, run Run, step int) error {
	for _, p := range s.sql.schema.pieces {
		if p.step != step {
			continue
		}
		there := 0
		if p.Name != "" {
			if err := run(ctx, counting(p.Count, p.Name, &there)); err != nil {
				return err
			}
		}
		if there == 0 {
			if err := p.make(ctx, run); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p piece) make(ctx context.Context, run Run) error {
	for _, text := range p.Create {
		if err := run(ctx, Statement{Text: text}); err != nil {
			return err
		}
	}
	return nil
}

// counting is a query for one number about a name.
func counting(text, name string, into *int) Statement {
	return Statement{Text: text, Args: []any{name}, Row: func(row Row) error { return row.Scan(into) }}
}

// find is for those who only read: what is not there they do not make.
func (s *schema) find(ctx context.Context) (taken int, err error) {
	version, taken, err := s.look(ctx, s.query)
	if err == nil && version == 0 {
		err = fmt.Errorf("%w: no replica has set up this cluster here yet", driver.ErrInvalid)
	}
	return taken, err
}

// query runs queries that only set variables, again when another connection was in the way.
func (s *schema) query(ctx context.Context, queries ...Statement) error {
	return s.retry(ctx, func() error { return s.database.query(ctx, Common, queries...) })
}

// look reads the version of the tables and the last step that was taken; 0: none. Another version than this program's
// is an error. Without a version the first step ended half way, where a database makes no tables in a transaction.
func (s *schema) look(ctx context.Context, run Run) (version, taken int, err error) {
	st := s.sql.schema
	there, steps, count := 0, 0, s.texts.numbered(s.texts.Tables)
	if err := run(ctx, counting(count, st.name, &there), counting(count, st.steps, &steps)); err != nil || there == 0 {
		return 0, 0, err
	}
	ask := []Statement{{Text: st.version, Row: func(row Row) error { return row.Scan(&version) }}}
	if steps > 0 {
		ask = append(ask, Statement{Text: st.step, Row: func(row Row) error { return row.Scan(&taken) }})
	}
	if err := run(ctx, ask...); err != nil || version == 0 {
		return 0, 0, err
	}
	return version, taken, driver.CheckSchema(st.name, version, schemaVersion)
}
