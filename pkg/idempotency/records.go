package idempotency

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Records keeps the records of requests. Each has a version that rises with every write, and is changed only if it is
// at the version that the writer has seen. Methods may be called concurrently, but for those inside one transaction.
// Package idempotencytest is the suite that all of them pass.
type Records interface {
	// Read returns a record as it is now: it shows every write that was acknowledged before the call.
	Read(ctx context.Context, id string) (Found, error)
	// Write performs a write and returns once it is known how it ended. With an error it may have happened, or may yet
	// happen. After an error of a write in the state Started its caller does not work, and the record is taken back as
	// soon as the database answers.
	Write(ctx context.Context, w Write) (Answer, error)
	// BindSession names the process that records are written for. The context that it returns is the given one, and
	// ends as well when others may take the process for dead. release is called when the work has returned.
	BindSession(ctx context.Context) (work context.Context, owner string, release func(), err error)
	// Dead says whether an owner is known to be dead. It is asked only about records in the state Started. False when
	// it is not known.
	Dead(ctx context.Context, owner string) (bool, error)
	// Transactional says that records are in a transaction of the caller: a write counts when it is committed, and
	// only then. So a record of another caller is never seen while that one is at work.
	Transactional() bool
}

// Write is one change of a record.
type Write struct {
	ID     string
	Over   int64         // the version that is written over; 0: there is no record
	Record *Record       // nil: remove the record, or leave one that has expired
	Keep   time.Duration // after which the record is forgotten, by the clock of the database
	// NoWait asks for [Answer.Busy] instead of waiting for another transaction, where the database can do so.
	NoWait bool
}

// Found is a record as it was found. The zero Found says there is none.
type Found struct {
	Record  Record
	Version int64
	Expired bool // its time is over, by the clock of the database
}

// Answer is how a write ended.
type Answer struct {
	Applied bool
	Version int64 // of an applied write; larger than any that the record had before
	Found   Found // of a write that was not applied: the record as it is
	Busy    bool  // not applied: another transaction is at work on the record
}

// State is how far a request is.
type State string

// The states of a record. A request without a record has not been seen, or is forgotten.
const (
	Started State = "started" // a caller is at work, or died at it
	Done    State = "done"    // the reply is kept
	Failed  State = "failed"  // the work returned an error, or its caller died half way
)

// Record is what is kept of a request.
type Record struct {
	ID          string `json:"id"`
	Fingerprint string `json:"fingerprint,omitempty"`
	State       State  `json:"state"`
	Owner       string `json:"owner,omitempty"` // the process that started it, as its [Records] names it
	Claim       string `json:"claim"`           // names the call that wrote it
	Attempt     int    `json:"attempt"`         // how often the work was begun, this time included

	Reply       Reply  `json:"reply,omitzero"`        // of Done
	Omitted     bool   `json:"omitted,omitempty"`     // Done: the reply was too large to be kept
	Failure     string `json:"failure,omitempty"`     // of Failed: the error's text
	Interrupted bool   `json:"interrupted,omitempty"` // Failed: since its caller died
}

// Encode is the record as bytes, for those who keep it.
func (r Record) Encode() ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("record of request %.80q: %w", r.ID, err)
	}
	return body, nil
}

// The statuses of HTTP that end a request. Package net/http panics for numbers beyond them.
const (
	minStatus = 200
	maxStatus = 999
)

// DecodeRecord is the reverse of [Record.Encode]. A record that was edited so that it makes no sense is an error.
func DecodeRecord(body []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(body, &r); err != nil {
		return Record{}, fmt.Errorf("record of a request: %w", err)
	}
	switch r.State {
	case Started, Done, Failed:
	default:
		return Record{}, fmt.Errorf("record of request %.80q: state %q, want %s, %s or %s", r.ID, r.State, Started,
			Done,
			Failed)
	}
	if r.Claim == "" || r.Attempt < 1 {
		return Record{}, fmt.Errorf("record of request %.80q: claim %q, attempt %d: want a claim, and an attempt from 1",
			r.ID, r.Claim, r.Attempt)
	}
	if s := r.Reply.Status; s != 0 && (s < minStatus || s > maxStatus) {
		return Record{}, fmt.Errorf("record of request %.80q: reply.status: %d: want %d to %d, or 0 for none", r.ID, s,
			minStatus, maxStatus)
	}
	return r, nil
}

// MaxMemory is how many bytes the records of [Memory] take, about.
const MaxMemory = 64 << 20

// Memory keeps records in this process, for tests and for programs of one process. They are gone when it ends.
//
// They take some [MaxMemory] bytes. New requests beyond are refused with [ErrUnavailable] until others expire, since a
// record that is forgotten early lets its request be done again. The replies of requests that are at work then are kept
// all the same.
func Memory() Records { return &memory{records: make(map[string]kept)} }

// memory implements [Records].
type memory struct {
	mu      sync.Mutex
	version int64
	records map[string]kept
	bytes   int       // of all records
	swept   time.Time // when all of them were looked at
}

type kept struct {
	Found
	expires time.Time
	bytes   int
}

// overhead is what a record takes beside its texts, about: its fields, and its place in the map.
const overhead = 512

// sizeOf is how many bytes a record takes, about.
func sizeOf(r Record) int {
	n := overhead + 2*len(r.ID) + len(r.Fingerprint) + len(r.Owner) + len(r.Claim) + len(r.Failure) + len(r.Reply.Body)
	for name, values := range r.Reply.Header {
		n += overhead + len(name)
		for _, value := range values {
			n += len(value)
		}
	}
	return n
}

// sweepEach is how many records each write looks at, to forget those that have expired.
const sweepEach = 4

func (m *memory) Read(_ context.Context, id string) (Found, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.found(id), nil
}

func (m *memory) found(id string) Found {
	one, ok := m.records[id]
	if !ok {
		return Found{}
	}
	one.Expired = !time.Now().Before(one.expires)
	return one.Found
}

func (m *memory) Write(_ context.Context, w Write) (Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.found(w.ID); found.Version != w.Over {
		return Answer{Found: found}, nil
	}
	if w.Record != nil && w.Over == 0 {
		if err := m.room(sizeOf(*w.Record)); err != nil {
			return Answer{}, err
		}
	}
	m.version++
	m.remove(w.ID)
	if w.Record != nil {
		one := kept{Found{Record: *w.Record, Version: m.version}, time.Now().Add(w.Keep), sizeOf(*w.Record)}
		m.records[w.ID] = one
		m.bytes += one.bytes
	}
	m.sweep(sweepEach)
	return Answer{Applied: true, Version: m.version}, nil
}

// room is nil when a new record of n bytes may be kept. Where there is none, it looks at all records, but once a second
// at most: others wait for that.
func (m *memory) room(n int) error {
	if now := time.Now(); m.bytes+n > MaxMemory && now.Sub(m.swept) >= time.Second {
		m.swept = now
		m.sweep(len(m.records))
	}
	if m.bytes+n > MaxMemory {
		return fmt.Errorf("%w: Memory keeps %d records of about %d bytes, and %d bytes is the limit: keep records for a "+
			"shorter time, or in a database", ErrUnavailable, len(m.records), m.bytes, MaxMemory)
	}
	return nil
}

func (m *memory) remove(id string) {
	m.bytes -= m.records[id].bytes // 0 of one that is not there
	delete(m.records, id)
}

// sweep looks at some records and forgets what has expired. A request that is at work is kept.
func (m *memory) sweep(some int) {
	for id := range m.records {
		if found := m.found(id); found.Expired && found.Record.State != Started {
			m.remove(id)
		}
		if some--; some <= 0 {
			return
		}
	}
}

func (m *memory) BindSession(ctx context.Context) (context.Context, string, func(), error) {
	return ctx, "this process", func() {}, nil
}

// Dead is false: only this process could ask.
func (m *memory) Dead(context.Context, string) (bool, error) { return false, nil }

func (m *memory) Transactional() bool { return false }
