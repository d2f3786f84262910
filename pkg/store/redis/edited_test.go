package redis_test

import (
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store/driver"
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

// Scripts and this program take the same texts for documents.
func TestEdited(t *testing.T) {
	server := testservers.Shared(t, testservers.KindRedis)
	uri := server.Database()
	o, err := goredis.ParseURL(uri)
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(o)
	defer func() { _ = c.Close() }()
	e := storetest.Edited{Config: driver.Config{URI: uri}}
	for name, tc := range edited {
		text := strings.ReplaceAll(tc.fields, "|", "\x00")
		edit := storetest.Edit{Name: name, Readable: tc.document, Do: func(kind driver.Kind, id string) error {
			return c.HSet(t.Context(), "shardctl:{default}:"+kind.Info().Plural, id, text).Err()
		}}
		e.Locks = append(e.Locks, edit)
		if !tc.document {
			e.Counters = append(e.Counters, edit)
		}
	}
	e.Run(t)
}
