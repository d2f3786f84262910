package redis_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/redis"
)

func TestDocumentsComeBack(t *testing.T) {
	for _, d := range []driver.Doc{
		{Kind: driver.KindGroup, ID: "g", Rev: 1},
		{
			Kind: driver.KindLock, ID: "g/a", Rev: driver.MaxRev,
			WriterID: driver.WriterID{Session: "s", Seq: math.MaxInt64},
			Group:    "g", Session: "s", Next: "n", Suspended: true, State: "live", Count: math.MinInt64, Expires: 7,
			Body: []byte("a\x00b\x00"),
		},
	} {
		got, err := redis.Decode(d.Kind, d.ID, string(redis.Encode(d)))
		if err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("got %+v, %v; want %+v", got, err, d)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(string(redis.Encode(driver.Doc{Rev: 1, Body: []byte("x")})))
	f.Add(strings.Repeat("1\x00", 10))
	f.Fuzz(func(t *testing.T, text string) {
		d, err := redis.Decode(driver.KindLock, "g/a", text)
		if err != nil {
			return
		}
		again, err := redis.Decode(driver.KindLock, "g/a", string(redis.Encode(d)))
		if err != nil || !reflect.DeepEqual(again, d) {
			t.Fatalf("%q: %+v became %+v, %v", text, d, again, err)
		}
	})
}
