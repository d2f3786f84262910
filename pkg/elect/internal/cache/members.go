package cache

import (
	"iter"
	"maps"
	"math"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/record"
)

// members are what sessions say of themselves. The zero value has read nothing.
type members struct {
	bySession map[string]record.Member // nil: not read yet
}

// Member is what a session says of itself.
func (m *members) Member(session string) (record.Member, bool) {
	member, ok := m.bySession[session]
	return member, ok
}

// Members are the sessions that have said something of themselves, in no order.
func (m *members) Members() iter.Seq[string] { return maps.Keys(m.bySession) }

// ForgetMembers forgets what these sessions said of themselves.
func (m *members) ForgetMembers(sessions ...string) {
	for _, id := range sessions {
		delete(m.bySession, id)
	}
}

// LongestLease is the largest T of all members known. A session whose document is missing may be anyone's, also one
// that was never seen here. As long as the members have not been read its lease may be of any length.
func (m *members) LongestLease() time.Duration {
	if m.bySession == nil {
		return math.MaxInt64
	}
	var longest time.Duration
	for _, member := range m.bySession {
		longest = max(longest, time.Duration(member.LeaseMS)*time.Millisecond)
	}
	return longest
}

// replaceMembers takes what a reading found; nil: members were not read. Of broken sessions the document is malformed:
// what was known of them stays.
func (m *members) replaceMembers(found map[string]record.Member, broken []string) {
	if found == nil {
		return
	}
	for _, id := range broken {
		if before, ok := m.bySession[id]; ok {
			found[id] = before
		}
	}
	m.bySession = found
}
