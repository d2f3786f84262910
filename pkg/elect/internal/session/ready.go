package session

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/store"
)

// Ready is what is to be done. Its zero value asks for nothing. The loop carries it out in the order of the fields.
type Ready struct {
	Over *Over // the session is known to be dead
	// a session begins, of this name: before its document is created the guard must know of it
	Opening   string
	Renewed   *protocol.Instant // deadlines count from here
	Keys      []protocol.KeyEventKind
	Cancelled bool // D has come
	Lost      bool // another has ended the session
	Write     *Write
	Read      bool // read the session's document, linearizably
	Member    *store.Change
	Forgot    bool // the store showed the session below a revision that it had acknowledged
	Changed   bool // phase, validity or member
}

// Over is the end of a session.
type Over struct {
	Session  string
	Instance string
	Acked    protocol.Instant // when its last acknowledged heartbeat was sent
}

// Write is a heartbeat, or the record of the session's own death.
type Write struct {
	Change store.Change
	// with the first heartbeat: to be written before it, so that anyone who sees the one finds the other
	Member *store.Change
}

// Empty says whether there is nothing to do.
func (r Ready) Empty() bool {
	return r.Over == nil && r.Opening == "" && r.Renewed == nil && len(r.Keys) == 0 && !r.Cancelled && !r.Lost &&
		r.Write == nil &&
		!r.Read && r.Member == nil && !r.Forgot && !r.Changed
}
