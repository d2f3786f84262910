//go:build linux

package replicas

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/testmongo"
	"github.com/shardctl/shardctl/test/e2e/history"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// lockWrite is one write of a lock that the database answered. It need not have been applied.
type lockWrite struct {
	rev, token  int64
	owned       bool
	sent, acked history.Instant
}

// tap reads what replicas write through their links, and when each write was answered. It may be used concurrently.
type tap struct {
	mu     sync.Mutex
	writes map[string][]lockWrite // by key, in order of their answers
}

func newTap() *tap { return &tap{writes: map[string][]lockWrite{}} }

// through listens to a link. A driver numbers its messages itself, so each link has its own.
func (t *tap) through(link *testmongo.Link) {
	var mu sync.Mutex
	open := map[uint32]map[string]lockWrite{} // by number of the request
	link.Slow(testmongo.Sent, func(message []byte) time.Duration {
		if found := lockWrites(message); len(found) > 0 {
			mu.Lock()
			defer mu.Unlock()
			open[binary.LittleEndian.Uint32(message[4:])] = found
		}
		return 0
	})
	link.Slow(testmongo.Answered, func(message []byte) time.Duration {
		at, number := history.Now(), binary.LittleEndian.Uint32(message[8:])
		mu.Lock()
		found := open[number]
		delete(open, number)
		mu.Unlock()
		t.answered(found, at)
		return 0
	})
}

func (t *tap) answered(found map[string]lockWrite, at history.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, w := range found {
		w.acked = at
		t.writes[key] = append(t.writes[key], w)
	}
}

// of are the writes of a key, in order of their answers.
func (t *tap) of(key string) []lockWrite {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.writes[key])
}

// The parts of MongoDB's messages that are read here:
// https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/
const (
	headerSize = 16
	opMessage  = 2013
)

// lockWrites are the writes of locks in one message from a client, by key.
func lockWrites(message []byte) map[string]lockWrite {
	if len(message) < headerSize+5 || binary.LittleEndian.Uint32(message[12:]) != opMessage {
		return nil
	}
	var found map[string]lockWrite
	var command bson.Raw
	var documents []bson.Raw
	for rest := message[headerSize+4:]; len(rest) > 5; { // after the flags; a checksum may end it
		size := int(binary.LittleEndian.Uint32(rest[1:]))
		if size+1 > len(rest) {
			break
		}
		section := rest[1 : size+1]
		switch rest[0] {
		case 0:
			command = bson.Raw(section)
		case 1:
			name := slices.Index(section[4:], 0)
			documents = append(documents, sequence(section[4+name+1:])...)
		}
		rest = rest[size+1:]
	}
	if !writesLocks(command) {
		return nil
	}
	for _, d := range documents {
		if key, w, ok := lockWriteOf(d); ok {
			if found == nil {
				found = map[string]lockWrite{}
			}
			w.sent = history.Now()
			found[key] = w
		}
	}
	return found
}

func sequence(data []byte) (all []bson.Raw) {
	for len(data) > 4 {
		size := int(binary.LittleEndian.Uint32(data))
		if size < 5 || size > len(data) {
			break
		}
		all, data = append(all, bson.Raw(data[:size])), data[size:]
	}
	return all
}

// writesLocks says whether a command changes the collection of locks: its first field names both.
func writesLocks(command bson.Raw) bool {
	first, err := command.IndexErr(0)
	if err != nil || first.Key() != "update" && first.Key() != "insert" {
		return false
	}
	collection, ok := first.Value().StringValueOK()
	return ok && strings.HasSuffix(collection, ".locks")
}

// lockWriteOf reads a document to insert, or the replacement of an update.
func lockWriteOf(d bson.Raw) (string, lockWrite, bool) {
	var update struct {
		U bson.Raw `bson:"u"`
	}
	if err := bson.Unmarshal(d, &update); err == nil && update.U != nil {
		d = update.U
	}
	var lock struct {
		Key     string        `bson:"_id"`
		Rev     int64         `bson:"rev"`
		Session string        `bson:"session"`
		Body    bson.RawValue `bson:"body"`
	}
	if err := bson.Unmarshal(d, &lock); err != nil || lock.Key == "" {
		return "", lockWrite{}, false
	}
	var body struct {
		Token int64 `json:"token"`
	}
	text := lock.Body.Value
	if at := slices.Index(text, '{'); at >= 0 { // text or bytes, after their length
		text = text[at:]
	}
	_ = json.NewDecoder(strings.NewReader(string(text))).Decode(&body) // without a token it is no claim
	return lock.Key, lockWrite{rev: lock.Rev, token: body.Token, owned: lock.Session != ""}, true
}
