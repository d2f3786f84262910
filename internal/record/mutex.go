package record

import (
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// MutexID is the ID of the document of a mutex, a read-write lock or a semaphore.
func MutexID(name string) string { return GroupMutexes + "/" + name }

// MutexName is the reverse of MutexID.
func MutexName(id string) string { return strings.TrimPrefix(id, GroupMutexes+"/") }

// mutexBody is what stores need not know of a mutex.
type mutexBody struct {
	Limit     int           `json:"limit"`
	Sessions  []string      `json:"sessions,omitempty"` // each once; holders and tickets have their index
	Holders   []mutexHolder `json:"holders,omitempty"`
	Queue     []mutexTicket `json:"queue,omitempty"`
	NotBefore *mutexHold    `json:"notBefore,omitempty"`
	Exclusive int64         `json:"exclusive,omitempty"` // the largest tokens given
	Shared    int64         `json:"shared,omitempty"`
}

type mutexHolder struct {
	Session int    `json:"session"`
	Claim   string `json:"claim"`
	Token   int64  `json:"token"`
	Shared  bool   `json:"shared,omitempty"`
	Slot    int    `json:"slot,omitempty"`
	Until   int64  `json:"until,omitempty"`
	Since   int64  `json:"since,omitempty"`
}

type mutexTicket struct {
	Session int    `json:"session"`
	Claim   string `json:"claim"`
	Shared  bool   `json:"shared,omitempty"`
	Seen    int64  `json:"seen,omitempty"` // more than the ticket before it
}

type mutexHold struct {
	UntilMs int64 `json:"untilMs"`
	ForMs   int64 `json:"forMs"`
	Token   int64 `json:"token"`
	Left    bool  `json:"left,omitempty"`
}

// MutexDoc is d as a document of a store, written under writer at now, the store's clock in Unix ms.
func MutexDoc(id string, d protocol.MutexDoc, writer driver.WriterID, now int64) driver.Doc {
	b := mutexBody{Limit: d.Limit, Exclusive: d.Exclusive, Shared: d.Shared}
	at := map[string]int{}
	d.Sessions(func(session string) {
		if _, known := at[session]; !known {
			at[session] = len(b.Sessions)
			b.Sessions = append(b.Sessions, session)
		}
	})
	for _, h := range d.Holders {
		b.Holders = append(b.Holders, mutexHolder{at[h.Session], h.Claim, h.Token, h.Shared, h.Slot, h.Until, h.Since})
	}
	seen := int64(0)
	for _, t := range d.Queue {
		b.Queue = append(b.Queue, mutexTicket{at[t.Session], t.Claim, t.Shared, max(0, t.Seen-seen)})
		seen = max(seen, t.Seen)
	}
	if d.Hold != (protocol.MutexHold{}) {
		b.NotBefore = new(mutexHold(d.Hold))
	}
	return driver.Doc{
		Kind: driver.KindMutex, ID: id, Rev: d.Rev, WriterID: writer, Session: d.Session(), Next: d.Next,
		Expires: d.Expires(now), Body: mustJSON(b),
	}
}

// MutexFrom reads a mutex from its document. What makes no sense is left out and is an error with the rest: its
// holder finds itself gone, and stops.
func MutexFrom(d driver.Doc) (protocol.MutexDoc, error) { return Guarded(d, readMutex) }

func readMutex(d driver.Doc) (protocol.MutexDoc, error) {
	var b mutexBody
	err := decode(d, &b)
	if err != nil {
		b = mutexBody{} // half of its holders are none
	}
	var m cleaner
	m.session("next", &d.Next)
	m.limit(&b.Limit)
	m.number("exclusive", &b.Exclusive, driver.MaxRev)
	m.number("shared", &b.Shared, driver.MaxRev)
	is := protocol.MutexDoc{Rev: d.Rev, Limit: b.Limit, Next: d.Next, Exclusive: b.Exclusive, Shared: b.Shared}
	for _, h := range b.Holders {
		m.number("holders.token", &h.Token, driver.MaxRev)
		m.moment("holders.until", &h.Until)
		m.moment("holders.since", &h.Since)
		if session, ok := m.named("holders", b.Sessions, h.Session, h.Claim); ok && h.Slot >= 0 {
			is.Holders = append(is.Holders, protocol.MutexHolder{
				Session: session, Claim: h.Claim, Token: h.Token, Shared: h.Shared, Slot: h.Slot, Until: h.Until,
				Since: h.Since,
			})
		}
	}
	seen := int64(0)
	for _, t := range b.Queue {
		m.number("queue.seen", &t.Seen, d.Rev-seen)
		seen += t.Seen
		if session, ok := m.named("queue", b.Sessions, t.Session, t.Claim); ok {
			is.Queue = append(is.Queue, protocol.MutexTicket{
				Session: session, Claim: t.Claim, Shared: t.Shared, Seen: seen,
			})
		}
	}
	if len(is.Queue) > protocol.MaxTickets {
		m.bad("queue", "%d tickets: want at most %d", len(is.Queue), protocol.MaxTickets)
		is.Queue = slices.Clip(is.Queue[:protocol.MaxTickets])
	}
	if h := b.NotBefore; h != nil {
		m.moment("notBefore.untilMs", &h.UntilMs)
		m.moment("notBefore.forMs", &h.ForMs)
		m.number("notBefore.token", &h.Token, driver.MaxRev)
		is.Hold = protocol.MutexHold(*h)
	}
	return is, m.err(d, err)
}

func (m *cleaner) limit(n *int) {
	if *n < 0 {
		m.bad("limit", "%d: must not be negative", *n)
		*n = 0
	}
}

// named is the session of an entry of a mutex, if it has one and a claim. Both are repeated in writes, as they are.
func (m *cleaner) named(field string, sessions []string, at int, claim string) (session string, ok bool) {
	if at >= 0 && at < len(sessions) {
		session = sessions[at]
	}
	for _, text := range []string{session, claim} {
		odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"\\<>&", r) }
		if text == "" || len(text) > driver.MaxText || strings.ContainsFunc(text, odd) {
			m.bad(field, "session %d of %d, %.80q, claim %.80q: want plain text", at, len(sessions), session, claim)
			return "", false
		}
	}
	return session, true
}
