//go:build linux

package replicas

import (
	"encoding/binary"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/test/e2e/history"
)

func TestLockWritesReadsReplacements(t *testing.T) {
	claim := bson.D{
		{Key: "_id", Value: "g/a"},
		{Key: "rev", Value: int64(7)},
		{Key: "session", Value: "s"},
		{Key: "body", Value: `{"token":7}`},
	}
	release := bson.D{
		{Key: "_id", Value: "g/b"},
		{Key: "rev", Value: int64(8)},
		{Key: "session", Value: ""},
		{Key: "body", Value: `{"token":5}`},
	}
	got := lockWrites(updateMessage(t, "c.locks", claim, release))
	if w := got["g/a"]; !w.owned || w.rev != 7 || w.token != 7 {
		t.Errorf("claim: %+v", w)
	}
	if w := got["g/b"]; w.owned || w.rev != 8 || w.token != 5 {
		t.Errorf("release: %+v", w)
	}
	if got := lockWrites(updateMessage(t, "c.sessions", claim)); len(got) != 0 {
		t.Errorf("another collection: %v", got)
	}
	for n := range 40 { // whatever was cut short
		lockWrites(updateMessage(t, "c.locks", claim)[:n])
	}
}

func TestHandOverTakesTheLastReleaseBeforeTheClaim(t *testing.T) {
	tap := newTap()
	for i, w := range []lockWrite{
		{rev: 5, token: 5, owned: true},
		{rev: 6, token: 5, owned: true},
		{rev: 7, token: 5},
		{rev: 8, token: 5},
		{rev: 9, token: 9, owned: true},
		{rev: 10, token: 9, owned: true},
	} {
		tap.answered(map[string]lockWrite{"k": w}, 100+history.Instant(i))
	}
	released, claimed := tap.handOver("k", 5, 9)
	if released.rev != 8 || released.acked != 103 || claimed.rev != 9 || claimed.acked != 104 {
		t.Errorf("released %+v, claimed %+v", released, claimed)
	}
}

// updateMessage is an update as a driver sends it: the command, and its statements beside it.
func updateMessage(t *testing.T, collection string, replacements ...bson.D) []byte {
	t.Helper()
	marshal := func(d bson.D) []byte {
		data, err := bson.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	statements := []byte("updates\x00")
	for _, r := range replacements {
		statements = append(
			statements,
			marshal(bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: r[0].Value}}}, {Key: "u", Value: r}})...,
		)
	}
	message := make([]byte, headerSize+4)
	binary.LittleEndian.PutUint32(message[12:], opMessage)
	message = append(append(message, 0), marshal(bson.D{{Key: "update", Value: collection}})...)
	message = append(message, 1)
	message = binary.LittleEndian.AppendUint32(message, uint32(len(statements)+4))
	return append(message, statements...)
}
