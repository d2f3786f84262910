package elect

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// SessionState is the life of a session: live, then draining, then dead. It never goes back.
type SessionState string

// The states of a session.
const (
	Live     SessionState = "live"
	Draining SessionState = "draining"
	Dead     SessionState = "dead"
)

// Session is one process's membership. Only a document that says Dead frees its keys.
type Session struct {
	ID       string
	Rev      int64
	Stamp    store.WriterID
	Beat     int64
	State    SessionState
	Lease    time.Duration // T of the process, whole milliseconds
	Instance string
	// Granted lists keys that a far side may still be working on, with the milliseconds left when the session was
	// marked dead. They stay held for so long from the arrival of the reply that first showed it.
	Granted map[Key]int64
	Cause   string // why it is dead, for people
	Died    int64  // store's clock, Unix ms, when it was marked dead; for cleaning up
	// Clock is the store's clock, Unix ms, as the process had it when it wrote this: where those of two differ, what the one wrote may
	// seem old to the other. Nothing else is concluded from it.
	Clock int64
}

type sessionBody struct {
	LeaseMS  int64         `json:"leaseMs"`
	Instance string        `json:"instance,omitempty"`
	Granted  map[Key]int64 `json:"granted,omitempty"`
	Died     int64         `json:"died,omitempty"`
	Clock    int64         `json:"clock,omitempty"`
	Cause    string        `json:"cause,omitempty"`
}

// Doc is s as a document.
func (s Session) Doc() store.Doc {
	return store.Doc{
		Kind: store.KindSession, ID: s.ID, Rev: s.Rev, WriterID: s.Stamp, State: string(s.State), Count: s.Beat,
		Body: mustJSON(sessionBody{
			LeaseMS: s.Lease.Milliseconds(), Instance: s.Instance, Granted: s.Granted, Died: s.Died, Clock: s.Clock, Cause: s.Cause,
		}),
	}
}

// SessionFrom reads a session from its document. A body that cannot be read is an error beside what could be: the state and beat
// still count.
func SessionFrom(d store.Doc) (Session, error) {
	var b sessionBody
	err := decode(d, &b)
	var m mender
	m.number("leaseMs", &b.LeaseMS, maxLease.Milliseconds())
	mendText(&m, "instance", &b.Instance)
	mendText(&m, "cause", &b.Cause)
	m.moment("died", &b.Died)
	m.moment("clock", &b.Clock)
	m.granted(&b)
	return Session{
		ID: d.ID, Rev: d.Rev, Stamp: d.WriterID, Beat: d.Count, State: SessionState(d.State),
		Lease: time.Duration(b.LeaseMS) * time.Millisecond, Instance: b.Instance, Granted: b.Granted, Died: b.Died, Clock: b.Clock, Cause: b.Cause,
	}, m.err(d, err)
}

// granted bounds grants by the lease, where it is known: none is ever longer.
func (m *mender) granted(b *sessionBody) {
	most := maxLease.Milliseconds()
	if b.LeaseMS > 0 {
		most = b.LeaseMS
	}
	for key, left := range b.Granted {
		if left < 0 || left > most {
			m.bad("granted", "%.80q for %d ms: want 0 to %d", key, left, most)
			b.Granted[key] = min(max(left, 0), most)
		}
	}
	if size := len(mustJSON(*b)); size > store.MaxBody {
		m.bad("granted", "%d bytes, want at most %d", size, store.MaxBody)
		b.Granted = nil
	}
}

// Member is what a session says of itself. Its document is beside the session's, under the same ID, because it is
// larger and changes rarely.
type Member struct {
	Session  string         `json:"-"`
	Rev      int64          `json:"-"`
	Instance string         `json:"instance"`
	Caps     map[string]int `json:"caps,omitempty"` // most keys owned, by group; a group left out has no cap
	MaxTasks int            `json:"maxTasks,omitempty"`
	Zone     string         `json:"zone,omitempty"`
	// Labels of the instance; groups select by them.
	Labels map[string]string `json:"labels,omitempty"`
	// Revision of the program or pod template: while two run side by side, keys prefer the newer.
	Revision string `json:"revision,omitempty"`
	Version  string `json:"version,omitempty"`
	Address  string `json:"address,omitempty"` // host:port where other replicas reach its status server
	// ListRevision and ListHashes say which task lists it has: a hash by group.
	ListRevision int64             `json:"listRevision,omitempty"`
	ListHashes   map[string]string `json:"listHashes,omitempty"`
	// Opened is the store's clock in Unix ms when the process opened its first session.
	Opened  int64 `json:"opened,omitempty"`
	LeaseMS int64 `json:"leaseMs,omitempty"`
}

// Doc is m as a document, stamped s.
func (m Member) Doc(s store.WriterID) store.Doc {
	return store.Doc{Kind: store.KindMember, ID: m.Session, Rev: m.Rev, WriterID: s, Body: mustJSON(m)}
}

// MemberFrom reads a member from its document. With an error nothing of it should be relied on: half of its caps are none.
func MemberFrom(d store.Doc) (Member, error) {
	var m Member
	err := decode(d, &m)
	m.Session, m.Rev = d.ID, d.Rev
	var mend mender
	mendText(&mend, "instance", &m.Instance)
	mend.number("leaseMs", &m.LeaseMS, maxLease.Milliseconds())
	mend.moment("opened", &m.Opened)
	if m.MaxTasks < 0 {
		mend.bad("maxTasks", "%d: must not be negative", m.MaxTasks)
	}
	for group, limit := range m.Caps {
		if limit < 0 {
			mend.bad("caps", "%.80q: %d: must not be negative", group, limit)
		}
	}
	if m.Instance == "" && len(mend.errs) == 0 {
		mend.bad("instance", "missing")
	}
	return m, mend.err(d, err)
}

// Lock says who owns a key. Locks are never deleted, so their revisions, and with them the tokens, rise for ever.
type Lock struct {
	Key     Key
	Rev     int64
	Stamp   store.WriterID
	Session string // owner; empty: nobody
	Next    string // reserved for this session
	Parked  bool

	Token    int64  // the revision of the last claim
	Instance string // the owner's name, for people
	From     string // the owner before it
	Reason   Reason
	Message  string
	Since    int64 // store's clock, Unix ms, of the last change of owner
	Status   TaskStatus
}

// TaskStatus is what the owner says of the work. The lock keeps it, so that any replica can answer for all.
type TaskStatus struct {
	State     string      `json:"state,omitempty"` // waiting, starting, running, stopping, backoff, done, failed
	Since     int64       `json:"since,omitempty"` // store's clock, Unix ms
	Restarts  int         `json:"restarts,omitempty"`
	LastError string      `json:"lastError,omitempty"`
	NextRunAt int64       `json:"nextRunAt,omitempty"` // Unix ms
	LastTick  int64       `json:"lastTick,omitempty"`  // Unix ms of the newest tick fired
	FirstSeen int64       `json:"firstSeen,omitempty"` // Unix ms of the first declaration: ticks before it are not caught up
	Outcome   *RunOutcome `json:"outcome,omitempty"`
	// Settled says the run may not be moved for balance: restart: never or on-failure, or a tick in progress.
	Settled bool `json:"settled,omitempty"`
}

// fits says whether a store will take the status: a text that is too long would hold up every later write of the key.
func (s TaskStatus) fits() error {
	texts := []string{s.State, s.LastError}
	if s.Outcome != nil {
		texts = append(texts, s.Outcome.Error)
	}
	for _, text := range texts {
		if len(text) > MaxText {
			return fmt.Errorf("status: a text of %d bytes: at most %d are allowed: %w", len(text), MaxText, ErrTooLarge)
		}
	}
	return nil
}

// RunOutcome is how a task that ends by itself ended; it holds on every replica until a rerun.
type RunOutcome struct {
	Succeeded bool   `json:"succeeded"`
	ExitCode  int    `json:"exitCode"`
	Error     string `json:"error,omitempty"`
	At        int64  `json:"at"` // store's clock, Unix ms
	Token     int64  `json:"token"`
}

type lockBody struct {
	Token    int64      `json:"token,omitempty"`
	Instance string     `json:"instance,omitempty"`
	From     string     `json:"from,omitempty"`
	Reason   Reason     `json:"reason,omitempty"`
	Message  string     `json:"message,omitempty"`
	Since    int64      `json:"since,omitempty"`
	Status   TaskStatus `json:"status,omitzero"`
}

// Doc is l as a document.
func (l Lock) Doc() store.Doc {
	return store.Doc{
		Kind: store.KindLock, ID: string(l.Key), Rev: l.Rev, WriterID: l.Stamp, Group: l.Key.Group(),
		Session: l.Session, Next: l.Next, Suspended: l.Parked,
		Body: mustJSON(lockBody{l.Token, l.Instance, l.From, l.Reason, l.Message, l.Since, l.Status}),
	}
}

// LockFrom reads a lock from its document. What makes no sense counts as missing and is an error beside the rest: who owns it
// still counts.
func LockFrom(d store.Doc) (Lock, error) {
	var b lockBody
	err := decode(d, &b)
	var m mender
	m.session("session", &d.Session)
	m.session("next", &d.Next)
	mendText(&m, "instance", &b.Instance)
	mendText(&m, "from", &b.From)
	mendText(&m, "reason", &b.Reason)
	mendText(&m, "message", &b.Message)
	m.number("token", &b.Token, MaxRev)
	m.moment("since", &b.Since)
	m.status(&b.Status)
	return Lock{
		Key: Key(d.ID), Rev: d.Rev, Stamp: d.WriterID, Session: d.Session, Next: d.Next, Parked: d.Suspended,
		Token: b.Token, Instance: b.Instance, From: b.From, Reason: b.Reason, Message: b.Message, Since: b.Since,
		Status: b.Status,
	}, m.err(d, err)
}

func (m *mender) status(s *TaskStatus) {
	mendText(m, "status.state", &s.State)
	mendText(m, "status.lastError", &s.LastError)
	m.moment("status.since", &s.Since)
	m.moment("status.nextRunAt", &s.NextRunAt)
	m.moment("status.lastTick", &s.LastTick)
	m.moment("status.firstSeen", &s.FirstSeen)
	if o := s.Outcome; o != nil {
		mendText(m, "status.outcome.error", &o.Error)
		m.moment("status.outcome.at", &o.At)
	}
}

// WishKind is what an operator asks for.
type WishKind string

// The kinds of wishes.
const (
	WishDrain WishKind = "drain" // by instance name: give everything up
	WishPause WishKind = "pause" // by key: run it nowhere
	WishPin   WishKind = "pin"   // by key: keep it on an instance
	WishRerun WishKind = "rerun" // by key: what is done or failed runs again
)

// Wish is what an operator asked for. It is kept by instance name or key, so it outlives sessions.
type Wish struct {
	Kind   WishKind `json:"-"`
	Name   string   `json:"-"` // an instance or a key
	Rev    int64    `json:"-"`
	To     string   `json:"to,omitempty"` // pin: an instance, a pattern of one, or zone=Z
	Strict bool     `json:"strict,omitempty"`
	By     string   `json:"by,omitempty"`
	Reason string   `json:"reason,omitempty"`
	At     int64    `json:"at,omitempty"` // store's clock, Unix ms
}

// Doc is w as a document, stamped s.
func (w Wish) Doc(s store.WriterID) store.Doc {
	return store.Doc{Kind: store.KindOverride, ID: string(w.Kind) + "/" + w.Name, Rev: w.Rev, WriterID: s, State: string(w.Kind), Body: mustJSON(w)}
}

// WishFrom reads a wish from its document. What it is for is in its ID and counts also when the body cannot be read.
func WishFrom(d store.Doc) (Wish, error) {
	var w Wish
	err := decode(d, &w)
	kind, name, _ := strings.Cut(d.ID, "/")
	w.Kind, w.Name, w.Rev = WishKind(kind), name, d.Rev
	var m mender
	mendText(&m, "to", &w.To)
	mendText(&m, "by", &w.By)
	mendText(&m, "reason", &w.Reason)
	m.moment("at", &w.At)
	return w, m.err(d, err)
}

// Event is something that happened to a key, an instance or a configuration.
type Event struct {
	ID      string `json:"-"`    // ordered by time
	Time    int64  `json:"time"` // store's clock, Unix ms
	Type    string `json:"type"` // Moved, Died, Joined, Left, …
	Reason  Reason `json:"reason,omitempty"`
	Key     Key    `json:"key,omitempty"`
	From    string `json:"from,omitempty"` // instance names
	To      string `json:"to,omitempty"`
	Token   int64  `json:"token,omitempty"`
	By      string `json:"by,omitempty"`
	Message string `json:"message,omitempty"`
}

// Doc is e as a document, stamped s.
func (e Event) Doc(s store.WriterID) store.Doc {
	return store.Doc{Kind: store.KindEvent, ID: e.ID, Rev: 1, WriterID: s, Group: e.Key.Group(), Body: mustJSON(e)}
}

// EventFrom reads an event from its document.
func EventFrom(d store.Doc) (Event, error) {
	var e Event
	err := decode(d, &e)
	e.ID = d.ID
	var m mender
	m.moment("time", &e.Time)
	return e, m.err(d, err)
}

func decode(d store.Doc, into any) error {
	if len(d.Body) == 0 {
		return nil
	}
	return json.Unmarshal(d.Body, into)
}

// mustJSON marshals the plain structs of this file, which cannot fail: they hold no interfaces, channels or floats.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
