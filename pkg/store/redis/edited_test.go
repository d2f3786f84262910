package redis_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// edited are texts that somebody wrote manually: the fields of a lock, and whether they are a document.
var edited = map[string]struct {
	fields   string // parted by | in place of NUL
	document bool
}{
	"as it is written":              {"7|w|1|g|s||0|live|0|0|", true},
	"the largest numbers":           {"7|w|9223372036854775807|g|s||0||-9223372036854775808|0|", true},
	"no fields":                     {"seven", false},
	"a revision with a sign":        {"+7|w|1|g|s||0||0|0|", false},
	"a revision that begins with 0": {"007|w|1|g|s||0||0|0|", false},
	"no revision":                   {"0|w|1|g|s||0||0|0|", false},
	"a negative revision":           {"-7|w|1|g|s||0||0|0|", false},
	"a revision of 17 digits":       {"10000000000000000|w|1|g|s||0||0|0|", false},
	"suspended by a word":           {"7|w|1|g|s||yes||0|0|", false},
	"a negative end":                {"7|w|1|g|s||0||0|-1|", false},
	"an end of 25 digits":           {"7|w|1|g|s||0||0|9999999999999999999999999|", false},
	"a number of 25 digits":         {"7|w|9999999999999999999999999|g|s||0||0|0|", false},
	"a number with zeros before it": {"7|w|0000000000000000000000001|g|s||0||0|0|", false},
	"a count just too large":        {"7|w|1|g|s||0||9223372036854775808|0|", false},
	"a count just too small":        {"7|w|1|g|s||0||-9223372036854775809|0|", false},
}

// Scripts and this program take the same texts for documents. What is none counts as absent everywhere, and a creation
// takes its place.
func TestDocumentsWrittenOutOfBand(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	s := storetest.Open(t, store.Config{URI: "redis://" + server.Addr})
	for name, tc := range edited {
		id := "g/" + strings.ReplaceAll(name, " ", "-")
		do(t, server.Addr, "HSET", "shardctl:{default}:locks", id, strings.ReplaceAll(tc.fields, "|", "\x00"))
		do(t, server.Addr, "ZADD", "shardctl:{default}:locks:ids", 0, id)
		read, err := s.Read(t.Context(), store.KindLock, id)
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.List(t.Context(), store.KindLock, store.Query{From: id, To: id + "\x00"})
		if err != nil {
			t.Fatal(err)
		}
		if (len(read.Docs) == 1) != tc.document || (len(list.Docs) == 1) != tc.document {
			t.Errorf("%s: read %+v, listed %+v; want a document: %v", name, read.Docs, list.Docs, tc.document)
		}
		change := lock(id, 8, 0)
		if tc.document {
			change.IfRev = 7
		}
		if out := apply(t, s, change); out.Status != store.Applied {
			t.Errorf("%s: written over: %+v", name, out)
		}
	}
}
