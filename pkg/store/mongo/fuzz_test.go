package mongo

import (
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// FuzzDecode: whatever bytes the server sends as a document, decoding it panics nowhere. What comes out as a document
// is what every store may hand on: it reads the same again when it is written.
func FuzzDecode(f *testing.F) {
	full := encode(driver.Doc{
		Kind: driver.KindLock, ID: "g/k", Rev: 5, WriterID: driver.WriterID{Session: "s", Seq: 3}, Group: "g",
		Session: "s", Next: "n", Suspended: true,
		State: "live", Count: 7, Body: []byte(`{"a":1}`),
	})
	seeds := []any{
		full,
		bson.M{},
		bson.M{"_id": 7, "rev": 1},
		bson.M{"_id": bson.M{"a": 1}, "rev": int64(1)},
		bson.M{
			"_id": "g/k", "rev": "one", "writer": "x", "session": 12, "suspended": "yes", "count": bson.A{1},
			"body": bson.M{"a": 1},
		},
		bson.M{
			"_id": "g/k", "rev": int64(1), "writer": bson.M{"session": nil, "seq": math.NaN()}, "body": bson.A{},
			"count": 1e300,
		},
		bson.M{"_id": "g/\x00\xff", "rev": math.Inf(1)},
		bson.M{"_id": "g/k", "rev": int64(math.MaxInt64), "suspended": nil, "more": bson.Regex{Pattern: "x"}},
		bson.M{"_id": "g/k", "rev": 5.5, "count": int64(math.MinInt64)},
		bson.M{"_id": "g/k", "rev": bson.NewDecimal128(1, 2)},
	}
	for _, seed := range seeds {
		raw, err := bson.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte{})
	f.Add([]byte{5, 0, 0, 0, 0})
	f.Add([]byte{255, 255, 255, 127, 2})
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, kind := range []driver.Kind{driver.KindLock, driver.KindSession} {
			d, _ := decode(kind, raw)
			if driver.CheckFound(d) != nil {
				continue
			}
			again, err := bson.Marshal(encode(d))
			if err != nil {
				t.Fatalf("%+v cannot be written: %v", d, err)
			}
			got, err := decode(kind, again)
			if err != nil || !equalDocs(d, got) {
				t.Fatalf("read %+v, and again %+v, %v", d, got, err)
			}
		}
	})
}

func equalDocs(a, b driver.Doc) bool {
	same := string(a.Body) == string(b.Body)
	a.Body, b.Body = nil, nil
	return same && a.Kind == b.Kind && a.ID == b.ID && a.Rev == b.Rev && a.WriterID == b.WriterID &&
		a.Group == b.Group &&
		a.Session == b.Session && a.Next == b.Next && a.Suspended == b.Suspended && a.State == b.State &&
		a.Count == b.Count
}
