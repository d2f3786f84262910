package record

import (
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// MutexID is the ID of the document of a mutex, a read-write lock or a semaphore.
func MutexID(name string) string { return GroupMutexes + "/" + name }

// MutexName is the reverse of MutexID.
func MutexName(id string) string { return strings.TrimPrefix(id, GroupMutexes+"/") }

// mutexBody is what stores need not know of a mutex.
type mutexBody struct {
	Limit     int           `json:"limit"`
	Holders   []mutexHolder `json:"holders,omitempty"`
	Queue     []mutexTicket `json:"queue,omitempty"`
	NotBefore *mutexHold    `json:"notBefore,omitempty"`
	Exclusive int64         `json:"exclusive,omitempty"` // the largest tokens given
	Shared    int64         `json:"shared,omitempty"`
}

type mutexHolder struct {
	Session string `json:"session"`
	Claim   string `json:"claim"`
	Token   int64  `json:"token"`
	Shared  bool   `json:"shared,omitempty"`
	Slot    int    `json:"slot,omitempty"`
	Until   int64  `json:"until,omitempty"`
	Since   int64  `json:"since,omitempty"`
}

type mutexTicket struct {
	Session string `json:"session"`
	Claim   string `json:"claim"`
	Shared  bool   `json:"shared,omitempty"`
}

type mutexHold struct {
	UntilMs int64 `json:"untilMs"`
	ForMs   int64 `json:"forMs"`
	Token   int64 `json:"token"`
}

// MutexDoc is d as a document of a store, written under writer at now, the store's clock in Unix ms.
func MutexDoc(id string, d protocol.MutexDoc, writer store.WriterID, now int64) store.Doc {
	b := mutexBody{Limit: d.Limit, Exclusive: d.Exclusive, Shared: d.Shared}
	for _, h := range d.Holders {
		b.Holders = append(b.Holders, mutexHolder(h))
	}
	for _, t := range d.Queue {
		b.Queue = append(b.Queue, mutexTicket(t))
	}
	if d.Hold != (protocol.MutexHold{}) {
		b.NotBefore = new(mutexHold(d.Hold))
	}
	return store.Doc{
		Kind: store.KindMutex, ID: id, Rev: d.Rev, WriterID: writer, Session: d.Session(), Next: d.Next,
		Expires: d.Expires(now), Body: mustJSON(b),
	}
}

// MutexFrom reads a mutex from its document. What makes no sense is left out and is an error with the rest: whoever
// held it finds itself gone, and stops.
func MutexFrom(d store.Doc) (protocol.MutexDoc, error) {
	var b mutexBody
	err := decode(d, &b)
	if err != nil {
		b = mutexBody{} // half of its holders are none
	}
	var m cleaner
	m.session("next", &d.Next)
	m.limit(&b.Limit)
	m.number("exclusive", &b.Exclusive, store.MaxRev)
	m.number("shared", &b.Shared, store.MaxRev)
	is := protocol.MutexDoc{Rev: d.Rev, Limit: b.Limit, Next: d.Next, Exclusive: b.Exclusive, Shared: b.Shared}
	for _, h := range b.Holders {
		m.number("holders.token", &h.Token, store.MaxRev)
		m.moment("holders.until", &h.Until)
		m.moment("holders.since", &h.Since)
		if m.named("holders", h.Session, h.Claim) && h.Slot >= 0 {
			is.Holders = append(is.Holders, protocol.MutexHolder(h))
		}
	}
	for _, t := range b.Queue {
		if m.named("queue", t.Session, t.Claim) {
			is.Queue = append(is.Queue, protocol.MutexTicket(t))
		}
	}
	if len(is.Queue) > protocol.MaxTickets {
		m.bad("queue", "%d tickets: want at most %d", len(is.Queue), protocol.MaxTickets)
		is.Queue = slices.Clip(is.Queue[:protocol.MaxTickets])
	}
	if h := b.NotBefore; h != nil {
		m.moment("notBefore.untilMs", &h.UntilMs)
		m.moment("notBefore.forMs", &h.ForMs)
		m.number("notBefore.token", &h.Token, store.MaxRev)
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

// named says whether an entry of a mutex names a session and a claim. Both are repeated in writes, as they are.
func (m *cleaner) named(field, session, claim string) bool {
	for _, text := range []string{session, claim} {
		plain := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"\\<>&", r) }
		if text == "" || len(text) > store.MaxText || strings.ContainsFunc(text, plain) {
			m.bad(field, "session %.80q, claim %.80q: want plain text", session, claim)
			return false
		}
	}
	return true
}
