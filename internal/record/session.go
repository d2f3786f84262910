package record

import (
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
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
	ID        string
	Rev       int64
	WriterID  driver.WriterID
	Heartbeat int64
	State     SessionState
	Lease     time.Duration // T of the process, whole milliseconds
	Instance  string
	// Remote lists keys that a HTTP endpoint may still be working on, with the milliseconds left when the session was
	// marked dead. They stay held for so long from the arrival of the reply that first showed it.
	Remote map[Key]int64
	Cause  string // why it is dead, for people
	Left   bool   // it is dead since it left in order
	Died   int64  // store's clock, Unix ms, when it was marked dead; for cleaning up
	// Clock is the store's clock, Unix ms, as the process had it when it wrote this. Where those of two differ, what
	// the one wrote may seem old to the other. Nothing else is concluded from it.
	Clock int64
}

type sessionBody struct {
	LeaseMS  int64         `json:"leaseMs"`
	Instance string        `json:"instance,omitempty"`
	Remote   map[Key]int64 `json:"remote,omitempty"`
	Died     int64         `json:"died,omitempty"`
	Clock    int64         `json:"clock,omitempty"`
	Cause    string        `json:"cause,omitempty"`
	Left     bool          `json:"left,omitempty"`
}

// RemoteLeases are what is left of remote leases as a session has them. They are rounded up: none is freed too early.
func RemoteLeases(left map[Key]time.Duration) map[Key]int64 {
	remote := make(map[Key]int64, len(left))
	for key, d := range left {
		remote[key] = (d + time.Millisecond - 1).Milliseconds()
	}
	return remote
}

// Doc is s as a document.
func (s Session) Doc() driver.Doc {
	return driver.Doc{
		Kind: driver.KindSession, ID: s.ID, Rev: s.Rev, WriterID: s.WriterID, State: string(s.State), Count: s.Heartbeat,
		Expires: s.expires(), Body: mustJSON(sessionBody{
			LeaseMS: s.Lease.Milliseconds(), Instance: s.Instance, Remote: s.Remote, Died: s.Died, Clock: s.Clock,
			Cause: s.Cause, Left: s.Left,
		}),
	}
}

// expires is when a dead session may be removed; 0 while it lives, or when its death was not noted.
func (s Session) expires() int64 {
	if s.State != Dead || s.Died == 0 {
		return 0
	}
	return s.Died + driver.KindSession.Info().Retention.Milliseconds()
}

// SessionFrom reads a session from its document. A body that cannot be read is an error with what could be: the
// state and heartbeat still count.
func SessionFrom(d driver.Doc) (Session, error) { return Guarded(d, readSession) }

func readSession(d driver.Doc) (Session, error) {
	var b sessionBody
	err := decode(d, &b)
	var m cleaner
	m.number("leaseMs", &b.LeaseMS, MaxLease.Milliseconds())
	cleanText(&m, "instance", &b.Instance)
	cleanText(&m, "cause", &b.Cause)
	m.moment("died", &b.Died)
	m.moment("clock", &b.Clock)
	m.remote(&b)
	return Session{
		ID: d.ID, Rev: d.Rev, WriterID: d.WriterID, Heartbeat: d.Count, State: SessionState(d.State),
		Lease: time.Duration(b.LeaseMS) * time.Millisecond, Instance: b.Instance, Remote: b.Remote, Died: b.Died,
		Clock: b.Clock, Cause: b.Cause, Left: b.Left,
	}, m.err(d, err)
}

// granted bounds grants by the lease, where it is known: none is ever longer.
func (m *cleaner) remote(b *sessionBody) {
	most := MaxLease.Milliseconds()
	if b.LeaseMS > 0 {
		most = b.LeaseMS
	}
	for key, left := range b.Remote {
		if left < 0 || left > most {
			m.bad("remote", "%.80q for %d ms: want 0 to %d", key, left, most)
			b.Remote[key] = min(max(left, 0), most)
		}
	}
	if size := len(mustJSON(*b)); size > driver.MaxBody {
		m.bad("remote", "%d bytes, want at most %d", size, driver.MaxBody)
		b.Remote = nil
	}
}

// Validate says whether a store will take the session, whatever the texts that are added when it is marked dead.
func (s Session) Validate() error {
	if size := len(s.Doc().Body); size > driver.MaxBody-4*driver.MaxText {
		return fmt.Errorf(
			"session: %d bytes of remote leases: at most %d are allowed: %w", size, driver.MaxBody-4*driver.MaxText,
			driver.ErrTooLarge,
		)
	}
	return nil
}

// RequestStarted is the state of a request's document whose caller, the session, may be at work: see package
// idempotency.
const RequestStarted = "started"
