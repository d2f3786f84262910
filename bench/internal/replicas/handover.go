//go:build linux

package replicas

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/testmongo"
)

// stages are the parts of hand-overs, of one key each.
type stages struct {
	release, claim, start []time.Duration
	missing               int // hand-overs of which a write was not seen
}

// stageRatio is how many times its floor each stage may take at the median.
type stageRatio struct {
	name   string
	keys   int // that one replica hands over at once
	rounds int
	period string // between two timestamps: an end of a run reads early by half of that, on average
	atMost float64
}

// handOverStages prints the three stages of a hand-over beside their floors: at one key and with twenty at once.
func handOverStages(ctx context.Context, b *lab.Lab) error {
	for _, c := range []stageRatio{
		{"one key", 1, b.Times(15, 3), "1ms", 1.5},
		{"20 keys at once", 20, b.Times(4, 1), "5ms", 3},
	} {
		s, err := measureStages(ctx, b, c)
		if err != nil {
			return err
		}
		after := max(0, b.Floor.Delivery-b.Floor.Write)
		for _, part := range []struct {
			name, floor string
			took        []time.Duration
			least       time.Duration
		}{
			{"end of run → release acknowledged", "a majority write", s.release, b.Floor.Write},
			{
				"→ claim acknowledged", "delivery of an answered write, and a majority write", s.claim,
				after + b.Floor.Write,
			},
			{"→ new run started", "fork and exec to the first timestamp", s.start, b.Floor.Process},
			{"in all", "the three", s.all(), after + 2*b.Floor.Write + b.Floor.Process},
		} {
			p50 := history.Percentile(part.took, 50)
			times := float64(p50) / float64(part.least)
			b.Figure("stage, "+c.name+": "+part.name, times <= c.atMost, fmt.Sprintf("≤ %.1f × floor", c.atMost),
				"p50 %s, p99 %s, n=%d; floor %s (%s); p50 = %.1f × floor", lab.MS(p50),
				lab.MS(history.Percentile(part.took, 99)), len(part.took),
				lab.MS(part.least), part.floor, times)
		}
		if s.missing > 0 {
			b.Note("  stages, "+c.name, "%d hand-overs whose writes were not seen are left out", s.missing)
		}
	}
	return nil
}

// measureStages stops replicas in order, each behind a proxy of its own to the database that notes when writes were
// answered.
func measureStages(ctx context.Context, b *lab.Lab, c stageRatio) (stages, error) {
	name, _, drop := b.DB.Fresh(ctx)
	defer drop()
	t := newTap()
	var links []*testmongo.Link
	defer func() {
		for _, link := range links {
			link.Close()
		}
	}()
	nextURI := func() (string, error) {
		link, err := b.DB.Set.Link(ctx)
		if err != nil {
			return "", err
		}
		links = append(links, link)
		t.through(link)
		return testmongo.WithDatabase(link.URI(), name), nil
	}
	var s stages
	o := harness.Options{Lease: lab.DefaultLease, Tasks: c.keys * replicas, Recorder: []string{"--period", c.period}}
	err := withLinkedRig(ctx, b, "stages", o, nextURI, func(r *rig) error {
		for range c.rounds {
			l, err := r.lose(ctx, harness.Guard, syscall.SIGTERM)
			if err != nil {
				return err
			}
			s.add(l, t)
		}
		return nil
	})
	return s, err
}

// add takes the stages of one loss.
func (s *stages) add(l loss, t *tap) {
	for _, key := range l.keys {
		runs := l.h.Runs(key)
		for i, run := range runs {
			if i == 0 || run.Start < l.at || runs[i-1].Start >= l.at {
				continue
			}
			released, claimed := t.handOver(key, runs[i-1].Token, run.Token)
			if released.acked == 0 || claimed.acked == 0 {
				s.missing++
				continue
			}
			s.release = append(s.release, released.acked.Sub(runs[i-1].End))
			s.claim = append(s.claim, claimed.acked.Sub(released.acked))
			s.start = append(s.start, run.Start.Sub(claimed.acked))
		}
	}
}

// all are the hand-overs as wholes.
func (s *stages) all() []time.Duration {
	var all []time.Duration
	for i := range s.release {
		all = append(all, s.release[i]+s.claim[i]+s.start[i])
	}
	return all
}

// handOver finds the writes between two runs. The write of a claim has its token as revision. The release is the last
// write before it, of the run before, that leaves no owner.
func (t *tap) handOver(key string, before, after int64) (released, claimed lockWrite) {
	for _, w := range t.of(key) {
		switch {
		case w.owned && w.rev == after && w.token == after && claimed.acked == 0:
			claimed = w
		case !w.owned && w.rev > before && w.rev < after && w.rev > released.rev:
			released = w
		}
	}
	return released, claimed
}

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
