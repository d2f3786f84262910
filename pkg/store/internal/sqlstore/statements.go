package sqlstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// statements are the SQL texts of one cluster.
type statements struct {
	schema schemaStatements
	kinds  map[driver.Kind]kindStatements
	log    logStatements
	// the server's clock, and the largest revision of a counter, so of any lock that it counts
	clock string
	// of a server: its clock, and 0 in the place of that revision, which is in another table than sessions
	now string
}

// kindStatements are those of one table. Columns are always in the order of columns.
type kindStatements struct {
	table, get string // table is its name as it is written
	owned      bool   // with an index on session

	put, remove                         string // of a file: without a condition
	insert, update, removeAt, increment string // of a server: with one
	updateQuietly                       string // and on the same state
}

// logStatements are those of the log of what watchers may be notified of. lost is a number that mark changes: that
// something was changed and is not in the log.
type logStatements struct{ table, add, drop, trim, last, since, find, empty, lost, mark string }

const columns = "id, rev, writer_session, writer_seq, grp, session, next, suspended, state, count, expires, body"

// columnOf is where a table has a field.
var columnOf = map[driver.Field]string{
	driver.FieldID: "id", driver.FieldRev: "rev", driver.FieldGroup: "grp", driver.FieldSession: "session",
	driver.FieldSuspended: "suspended", driver.FieldExpires: "expires",
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
		w.texts.Sequence, "$body", w.texts.Body, "$options", w.texts.Table, "$max", strconv.FormatInt(driver.MaxRev, 10),
	).Replace(text))
}

func newStatements(cluster string, d Dialect) statements {
	w := writing{Prefix(cluster, d.Texts().MaxName), d.Texts()}
	log, steps := w.name("notifications"), w.name("steps")
	st := statements{
		kinds: map[driver.Kind]kindStatements{},
		log: logStatements{
			table: log,
			add:   w.fill(log, `INSERT INTO $table (kind, id, grp, next) VALUES (?, ?, ?, ?)`),
			drop:  w.fill(log, `DELETE FROM $table WHERE seq <= ?`),
			last:  w.fill(log, `SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM $table`),
			since: w.fill(log, `SELECT seq, kind, id, grp, next FROM $table WHERE `),
			find:  w.fill(log, `SELECT seq FROM $table WHERE kind = '' AND id = ?`),
			// Within another query, since MySQL deletes from no table that its condition reads.
			empty: w.fill(log, `DELETE FROM $table WHERE (SELECT last FROM (SELECT max(seq) AS last FROM $table) `+
				`AS newest) >= ?`),
			lost: w.fill(steps, `SELECT coalesce(min(step), 0) FROM $table`),
			mark: w.fill(steps, `UPDATE $table SET step = step - 1 WHERE step < 0`),
		},
	}
	for _, info := range driver.Table() {
		table := w.name(info.Plural)
		st.kinds[info.Kind] = kindStatements{
			table: table,
			get:   w.fill(table, `SELECT $columns FROM $table WHERE id = ?`),
			owned: info.Indexed(driver.FieldSession),
		}
	}
	switch d := d.(type) {
	case File:
		st.addFile(w, d.FileTexts())
	case Server:
		st.addServer(w, d.ServerTexts(), log)
	}
	st.schema = newSchemaStatements(w, d)
	return st
}

// addFile adds the texts that only files need.
func (st *statements) addFile(w writing, texts FileTexts) {
	for kind, k := range st.kinds {
		k.put = w.fill(k.table, texts.Replace+` $table ($columns) VALUES (`+placeholders(strings.Count(columns, ",")+1)+`)`)
		k.remove = w.fill(k.table, `DELETE FROM $table WHERE id = ?`)
		st.kinds[kind] = k
	}
	st.clock = w.fill(
		st.kinds[driver.KindGroup].table, `SELECT 0, coalesce(max(rev), 0) FROM $table WHERE rev <= ?`,
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
		if kind == driver.KindGroup {
			k.increment = w.texts.numbered(texts.Increment(k.table, names))
		}
		st.kinds[kind] = k
	}
	st.log.trim = w.texts.numbered(texts.Trim(log))
	st.clock = w.fill(st.kinds[driver.KindGroup].table, `SELECT `+texts.Now+`, coalesce(max(rev), 0) FROM $table `+
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
