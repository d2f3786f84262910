package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
)

// statements are the SQL texts of one cluster.
type statements struct {
	schema              string // the name of the table that holds the version
	version, setVersion string
	create              []string
	kinds               map[store.Kind]kindStatements
	log                 logStatements
	// the server's clock, and the largest revision of a counter, so of any lock that it counts
	clock string
	// of a server: its clock, and 0 in the place of that revision, which is in another table than sessions
	now string
}

// kindStatements are those of one table. Columns are always in the order of columns.
type kindStatements struct {
	table, name, get string   // table is name as it is written
	owned            bool     // with an index on session
	create           []string // its table, indexes, and what notes its changes
	indexes          []index  // those among them

	put, remove                         string // of a file: without a condition
	insert, update, removeAt, increment string // of a server: with one
	updateQuietly                       string // and on the same state
}

// index is one by its name, and what makes it on a table that is there.
type index struct{ name, create string }

// logStatements are those of the log of what watchers may be notified of.
type logStatements struct{ table, add, drop, trim, last, since string }

const columns = "id, rev, writer_session, writer_seq, grp, session, next, suspended, state, count, expires, body"

// columnOf is where a table has a field.
var columnOf = map[store.Field]string{
	store.FieldID: "id", store.FieldRev: "rev", store.FieldGroup: "grp", store.FieldSession: "session",
	store.FieldSuspended: "suspended", store.FieldExpires: "expires",
}

// writing makes texts of one cluster.
type writing struct {
	prefix string
	texts  Texts
}

// name is a table's or an index's, as it is written.
func (w writing) name(of string) string { return w.texts.Quote + w.prefix + of + w.texts.Quote }

// fill puts names, types and parameters into a text.
func (w writing) fill(table, text string) string {
	return w.texts.numbered(strings.NewReplacer(
		"$table", table, "$columns", columns, "$text", w.texts.Text, "$integer", w.texts.Integer, "$sequence",
		w.texts.Sequence, "$body", w.texts.Body, "$options", w.texts.Table, "$max", strconv.FormatInt(store.MaxRev, 10),
	).Replace(text))
}

func newStatements(cluster string, d Dialect) statements {
	w := writing{Prefix(cluster, d.Texts().MaxName), d.Texts()}
	meta, log := w.name("schema"), w.name("notifications")
	st := statements{
		kinds:      map[store.Kind]kindStatements{},
		schema:     w.prefix + "schema",
		version:    w.fill(meta, `SELECT version FROM $table`),
		setVersion: w.fill(meta, `INSERT INTO $table (one, version) VALUES (1, ?)`),
		create: []string{
			w.fill(meta, `CREATE TABLE IF NOT EXISTS $table (one $integer PRIMARY KEY CHECK (one = 1), `+
				`version $integer NOT NULL) $options`),
			w.fill(log, `CREATE TABLE IF NOT EXISTS $table (seq $sequence, kind $text NOT NULL, id $text NOT NULL, `+
				`grp $text NOT NULL, next $text NOT NULL) $options`),
		},
		log: logStatements{
			table: log,
			add:   w.fill(log, `INSERT INTO $table (kind, id, grp, next) VALUES (?, ?, ?, ?)`),
			drop:  w.fill(log, `DELETE FROM $table WHERE seq <= ?`),
			last:  w.fill(log, `SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM $table`),
			since: w.fill(log, `SELECT seq, kind, id, grp, next FROM $table WHERE `),
		},
	}
	for _, info := range store.Table() {
		if info.Kind == store.KindGroup {
			info.Indexes = append(info.Indexes, []store.Field{store.FieldRev})
		}
		table := w.name(info.Plural)
		k := kindStatements{
			table: table,
			name:  w.prefix + info.Plural,
			get:   w.fill(table, `SELECT $columns FROM $table WHERE id = ?`),
			owned: info.Indexed(store.FieldSession),
		}
		k.create, k.indexes = w.tables(info)
		st.kinds[info.Kind] = k
	}
	switch d := d.(type) {
	case File:
		st.addFile(w, d.FileTexts())
	case Server:
		st.addServer(w, d.ServerTexts(), log)
	}
	return st
}

// tables are the statements that make a kind's table and its indexes, and those indexes. With Texts.Inline the table
// comes with them, so that who finds it needs no right to make them.
func (w writing) tables(info store.KindInfo) (create []string, indexes []index) {
	table := w.name(info.Plural)
	inline, later := "", []string(nil)
	for i, fields := range info.Indexes {
		of := fmt.Sprintf("%s_%d", info.Plural, i+1)
		text := w.fill(table, `CREATE INDEX `+w.name(of)+` ON $table (`+w.on(fields))
		indexes = append(indexes, index{w.prefix + of, text})
		if w.texts.Inline {
			inline += `, INDEX ` + w.name(of) + ` (` + w.on(fields)
		} else {
			later = append(later, text)
		}
	}
	return append([]string{w.fill(table, `CREATE TABLE IF NOT EXISTS $table (id $text NOT NULL PRIMARY KEY, `+
			`rev $integer NOT NULL, writer_session $text NOT NULL, writer_seq $integer NOT NULL, grp $text NOT NULL, `+
			`session $text NOT NULL, next $text NOT NULL, suspended $integer NOT NULL, state $text NOT NULL, `+
			`count $integer NOT NULL, expires $integer NOT NULL, body $body NOT NULL`+inline+`) $options`)}, later...),
		indexes
}

// on is the end of a CREATE INDEX. Only what expires is in an index on that, so that heartbeats do not touch it.
func (w writing) on(fields []store.Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = columnOf[f]
	}
	text := strings.Join(names, ", ") + `)`
	if fields[0] == store.FieldExpires && w.texts.Partial {
		text += ` WHERE expires > 0`
	}
	return text
}

// addFile adds the texts that only files need.
func (st *statements) addFile(w writing, texts FileTexts) {
	for kind, k := range st.kinds {
		k.put = w.fill(k.table, texts.Replace+` $table ($columns) VALUES (`+placeholders(strings.Count(columns, ",")+1)+`)`)
		k.remove = w.fill(k.table, `DELETE FROM $table WHERE id = ?`)
		st.kinds[kind] = k
	}
	st.clock = w.fill(
		st.kinds[store.KindGroup].table, `SELECT 0, coalesce(max(rev), 0) FROM $table WHERE rev <= ?`,
	)
}

// addServer adds the texts that only servers need. A row whose rev is no revision is there for no one.
func (st *statements) addServer(w writing, texts ServerTexts, log string) {
	names := strings.Split(columns, ", ")
	for kind, k := range st.kinds {
		k.insert = w.texts.numbered(texts.Create(k.table, names))
		update := `UPDATE $table SET ` + strings.Join(names[1:], " = ?, ") +
			` = ? WHERE id = ? AND rev = ? AND rev <= $max`
		k.update, k.updateQuietly = w.fill(k.table, update), w.fill(k.table, update+` AND state = ?`)
		k.removeAt = w.fill(k.table, `DELETE FROM $table WHERE id = ? AND rev = ? AND rev <= $max`)
		if kind == store.KindGroup {
			k.increment = w.texts.numbered(texts.Increment(k.table, names))
		}
		st.kinds[kind] = k
	}
	for _, info := range store.Table() {
		if info.Notify != store.NotifyNever && texts.Notify != nil {
			k := st.kinds[info.Kind]
			k.create = append(k.create, texts.Notify(info, k.table, log)...)
			st.kinds[info.Kind] = k
		}
	}
	st.log.trim = w.texts.numbered(texts.Trim(log))
	st.clock = w.fill(st.kinds[store.KindGroup].table, `SELECT `+texts.Now+`, coalesce(max(rev), 0) FROM $table `+
		`WHERE rev <= ?`)
	st.now = `SELECT ` + texts.Now + `, 0`
}

// numbered writes the parameters of a text as the database wants them.
func (t Texts) numbered(text string) string {
	if !t.Numbered {
		return text
	}
	var b strings.Builder
	n := 0
	for {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
		text = after
	}
}

// What may follow a prefix: the longest name of a table, and what a dialect appends to it.
const longestName = len("notifications") + 8

// Prefix is how names of a cluster's tables begin. It marks capital letters, since SQL does not distinguish the cases
// of table names everywhere. Where names of tables have at most limit bytes (0: any number), a long prefix is cut and
// ends with a hash of the whole.
func Prefix(cluster string, limit int) string {
	var b strings.Builder
	for _, r := range cluster {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('+')
		}
		b.WriteRune(r)
	}
	prefix := b.String()
	if most := limit - longestName - 1; limit > 0 && len(prefix) > most {
		sum := sha256.Sum256([]byte(prefix))
		hash := "~" + hex.EncodeToString(sum[:4])
		prefix = prefix[:most-len(hash)] + hash
	}
	return prefix + "_"
}

// schemaVersion is what this program sets up and understands. It rises with every change of the layout.
const schemaVersion = 2

// schema is the tables of one cluster.
type schema struct {
	*core
	database database
}

// setUp makes the tables, unless they are there, and refuses those of another version. Several processes may do so at
// once: the first one does it, the others find it done.
func (s *schema) setUp(ctx context.Context) error {
	missing, err := s.missing(ctx, s.query)
	if err != nil || len(missing) == 0 {
		return err
	}
	return s.database.setUp(ctx, func(run Run) error {
		missing, err := s.missing(ctx, run) // somebody else may have been faster
		if err != nil {
			return err
		}
		for _, st := range missing {
			if err := run(ctx, st); err != nil {
				return err
			}
		}
		return nil
	})
}

// missing are the statements that make what is not there: everything, or the tables of kinds and the indexes that are
// newer than the cluster. One more changes nothing for older programs, so it is no other version of the layout.
func (s *schema) missing(ctx context.Context, run Run) ([]Statement, error) {
	version, err := s.version(ctx, run)
	if err != nil {
		return nil, err
	}
	var there map[string]bool
	var all []Statement
	add := func(texts []string) {
		for _, text := range texts {
			all = append(all, Statement{Text: text})
		}
	}
	if version == schemaVersion {
		if there, err = s.present(ctx, run); err != nil {
			return nil, err
		}
	} else {
		add(s.sql.create)
	}
	for _, kind := range store.Kinds() {
		k := s.sql.kinds[kind]
		if !there[k.name] {
			add(k.create)
			continue
		}
		for _, index := range k.indexes {
			if !there[index.name] {
				add([]string{index.create})
			}
		}
	}
	if version != schemaVersion {
		all = append(all, Statement{Text: s.sql.setVersion, Args: []any{int64(schemaVersion)}})
	}
	return all, nil
}

// present says which tables of kinds and which indexes are there, by their names.
func (s *schema) present(ctx context.Context, run Run) (map[string]bool, error) {
	there := map[string]bool{}
	var asks []Statement
	ask := func(count, name string) {
		asks = append(asks, Statement{Text: s.texts.numbered(count), Args: []any{name}, Row: func(row Row) error {
			n := 0
			err := row.Scan(&n)
			there[name] = n > 0
			return err
		}})
	}
	for _, kind := range store.Kinds() {
		k := s.sql.kinds[kind]
		ask(s.texts.Tables, k.name)
		for _, index := range k.indexes {
			ask(s.texts.Indexes, index.name)
		}
	}
	return there, run(ctx, asks...)
}

// look is for those who only read: what is not there they do not make.
func (s *schema) look(ctx context.Context) error {
	version, err := s.version(ctx, s.query)
	if err == nil && version == 0 {
		err = fmt.Errorf("%w: no replica has set up this cluster here yet", store.ErrInvalid)
	}
	return err
}

// query runs queries that only set variables, again when another connection was in the way.
func (s *schema) query(ctx context.Context, queries ...Statement) error {
	return s.retry(ctx, func() error { return s.database.query(ctx, Common, queries...) })
}

// version is the version of the tables, 0 when there are none. Another one than this program's is an error.
func (s *schema) version(ctx context.Context, run Run) (int, error) {
	there, version := 0, 0
	if err := run(ctx, Statement{
		Text: s.texts.numbered(s.texts.Tables), Args: []any{s.sql.schema},
		Row: func(row Row) error { return row.Scan(&there) },
	}); err != nil || there == 0 {
		return 0, err
	}
	if err := run(ctx, Statement{
		Text: s.sql.version, Row: func(row Row) error { return row.Scan(&version) },
	}); err != nil || version == 0 {
		return 0, err // made by halves, where a database cannot make tables in a transaction
	}
	return version, store.CheckSchema(s.sql.schema, version, schemaVersion)
}
