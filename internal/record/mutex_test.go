package record

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// mutexOfAll has all that a mutex's document may say.
func mutexOfAll() protocol.MutexDoc {
	return protocol.MutexDoc{
		Rev: 9, Limit: 3, Next: "n", Exclusive: 9, Shared: 4,
		Holders: []protocol.MutexHolder{
			{Session: "s", Claim: "c1", Token: 8, Slot: 2, Until: 5, Since: 3},
			{Session: "t", Claim: "c2", Token: 9, Shared: true},
		},
		Queue: []protocol.MutexTicket{
			{Session: "u", Claim: "c3", Seen: 5},
			{Session: "v", Claim: "c4", Shared: true, Seen: 5},
			{Session: "u", Claim: "c5", Seen: 8},
		},
		Hold: protocol.MutexHold{UntilMs: 7, ForMs: 6, Token: 9, Left: true},
	}
}

func TestMutexIsReadAsWritten(t *testing.T) {
	writer := driver.WriterID{Session: "w", Seq: 1}
	for name, d := range map[string]protocol.MutexDoc{"all": mutexOfAll(), "free": {Rev: 3, Limit: 1, Exclusive: 2}} {
		doc := MutexDoc(MutexID("a/b"), d, writer, 1000)
		if err := driver.ValidateChanges([]driver.Change{{Doc: doc}}); err != nil || doc.ID != "locks/a/b" {
			t.Errorf("%s: %+v, %v", name, doc, err)
		}
		if got, err := MutexFrom(doc); err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("%s: read as %+v, %v", name, got, err)
		}
		if free := name == "free"; free != (doc.Expires > 0) {
			t.Errorf("%s expires at %d", name, doc.Expires)
		}
	}
	if got := MutexName(MutexID("a/b")); got != "a/b" {
		t.Errorf("name %q", got)
	}
}

// The queue is bounded by [protocol.MutexDoc.Size], which must not be below what a store gets.
func TestMutexFitsItsSize(t *testing.T) {
	d := protocol.MutexDoc{
		Rev: driver.MaxRev, Limit: 1000,
		Hold: protocol.MutexHold{UntilMs: driver.MaxRev, ForMs: driver.MaxRev},
	}
	claim := strings.Repeat("c", 16)
	seen := int64(driver.MaxRev / 2)
	for i := range 200 {
		session := strings.Repeat("s", 36) + strconv.Itoa(i)
		d.Holders = append(d.Holders, protocol.MutexHolder{
			Session: session, Claim: claim, Token: driver.MaxRev, Shared: true, Slot: 800 + i, Until: driver.MaxRev,
			Since: driver.MaxRev,
		})
		seen += int64(i) * int64(i) * int64(i) // differences of none to seven digits
		d.Queue = append(d.Queue, protocol.MutexTicket{Session: session, Claim: claim, Shared: i%2 == 0, Seen: seen})
	}
	if body := MutexDoc("locks/m", d, driver.WriterID{}, 0).Body; len(body) > d.Size() || !json.Valid(body) {
		t.Errorf("%d bytes, counted as %d", len(body), d.Size())
	}
}

// A manual edit costs the lock those whom it concerns, and no one else.
func TestEditedMutex(t *testing.T) {
	d := MutexDoc("locks/m", mutexOfAll(), driver.WriterID{Session: "w", Seq: 1}, 0)
	d.Body = []byte(strings.Replace(string(d.Body), `"claim":"c1"`, `"claim":""`, 1))
	got, err := MutexFrom(d)
	if err == nil || !strings.Contains(err.Error(), "holders: ") || len(got.Holders) != 1 || len(got.Queue) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, seen := range []string{"-1", "900"} {
		d := MutexDoc("locks/m", mutexOfAll(), driver.WriterID{Session: "w", Seq: 1}, 0)
		d.Body = []byte(strings.Replace(string(d.Body), `"seen":3`, `"seen":`+seen, 1))
		got, err := MutexFrom(d)
		if err == nil || !strings.Contains(err.Error(), "queue.seen: "+seen+": want 0 to 4") || got.Queue[2].Seen != 5 {
			t.Errorf("%+v, %v", got.Queue, err)
		}
	}
	d.Body = []byte("{")
	if got, err := MutexFrom(d); err == nil || len(got.Holders) > 0 || got.Rev != 9 {
		t.Errorf("%+v, %v", got, err)
	}
}
