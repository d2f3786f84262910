package zookeeper

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Directories of a kind. One reply lists a whole directory, and Java's clients take a megabyte at most. Kinds with a
// document for each key get many.
const (
	fewBuckets  = 4
	manyBuckets = 64
)

// buckets is how many directories the documents of a kind are spread over. It is part of the layout.
func buckets(kind driver.Kind) int {
	switch kind {
	case driver.KindLock, driver.KindValue, driver.KindEvent, driver.KindMutex, driver.KindRequest:
		return manyBuckets
	case driver.KindSession, driver.KindMember, driver.KindGroup, driver.KindOverride:
	}
	return fewBuckets
}

// layout names the znodes of one cluster. They are:
//
//	BASE/schema                            the version of the layout
//	BASE/floor                             what is added to a transaction's number, see [Store.RaiseFloor]
//	BASE/barrier                           written before linearizable reads
//	BASE/bells/NAME                        signals: written together with a change that somebody may wait for
//	BASE/documents/KIND/BUCKET/ID          a document's data
//	BASE/documents/KIND/BUCKET/ID/REV      its revision: the condition of every change
//	BASE/index/KIND/BUCKET/ID@REV          its revision once more: what lists are made of
type layout struct{ base string }

func (l layout) schemaPath() string  { return l.base + "/schema" }
func (l layout) floorPath() string   { return l.base + "/floor" }
func (l layout) barrierPath() string { return l.base + "/barrier" }

// documents is a directory of documents.
func (l layout) documents(kind driver.Kind, bucket int) string {
	return l.dir("documents", kind, bucket)
}

// index is a directory of the index.
func (l layout) index(kind driver.Kind, bucket int) string { return l.dir("index", kind, bucket) }

func (l layout) dir(of string, kind driver.Kind, bucket int) string {
	return fmt.Sprintf("%s/%s/%s/%02x", l.base, of, kind.Info().Plural, bucket)
}

// sessionSignal is written when a session begins, ends or changes its state.
func (l layout) sessionSignal() string { return l.base + "/bells/sessions" }

// freeSignal is written for one of many sessions when a lock or a mutex is reserved for it, and for one of many IDs
// when that has lost its owner. Each kind has its own.
func (l layout) freeSignal(kind driver.Kind, sessionOrID string) string {
	return l.freeSignalOf(kind, hash(sessionOrID, manyBuckets))
}

func (l layout) freeSignalOf(kind driver.Kind, bucket int) string {
	return fmt.Sprintf("%s/bells/%s-%02x", l.base, kind.Info().Plural, bucket)
}

// directories are all znodes that exist before the first document, parents first. They have no data, apart from those
// named above.
func (l layout) directories() []string {
	all := []string{l.base + "/bells", l.base + "/documents", l.base + "/index", l.barrierPath(), l.sessionSignal()}
	for _, kind := range driver.Kinds() {
		if kind.Info().Notify == driver.NotifyFree {
			for bucket := range manyBuckets {
				all = append(all, l.freeSignalOf(kind, bucket))
			}
		}
		for _, of := range []string{"documents", "index"} {
			all = append(all, l.base+"/"+of+"/"+kind.Info().Plural)
			for bucket := range buckets(kind) {
				all = append(all, l.dir(of, kind, bucket))
			}
		}
	}
	return all
}

// place is where one document is.
type place struct {
	name     string // its ID as a znode's name
	document string // its data
	index    string // the directory of the index that it is in
}

func (l layout) place(kind driver.Kind, id string) place {
	bucket, name := hash(id, buckets(kind)), escape(id)
	return place{name: name, document: l.documents(kind, bucket) + "/" + name, index: l.index(kind, bucket)}
}

// revision is the znode that exists while the document is at rev.
func (p place) revision(rev int64) string { return p.document + "/" + strconv.FormatInt(rev, 10) }

// entry is the index's word that the document is at rev.
func (p place) entry(rev int64) string {
	return p.index + "/" + p.name + "@" + strconv.FormatInt(rev, 10)
}

func hash(text string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return int(h.Sum32() % uint32(n)) //nolint:gosec // n is one of two small constants
}

// escape is a text as the name of a znode: letters, digits and a few signs stay, every other byte becomes %XX. So a
// name has no slash, is never "." or "..", and holds no @.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// unescape is the reverse of escape; false for a name that escape does not make.
func unescape(name string) (text string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b.WriteByte(name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", false
		}
		c, err := strconv.ParseUint(name[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), escape(b.String()) == name
}

// splitEntry is the reverse of entry's last part.
func splitEntry(entry string) (name string, rev int64, ok bool) {
	name, text, ok := strings.Cut(entry, "@")
	if !ok {
		return "", 0, false
	}
	rev, err := strconv.ParseInt(text, 10, 64)
	return name, rev, err == nil
}
