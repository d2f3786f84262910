package balancer

import (
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Reasons tells why keys leave one member.
type Reasons struct {
	roster *roster
	from   int32
}

// ReasonsOf returns the Reasons of the member with the ID from, which need not be among the members of a plan.
func ReasonsOf(members []Member, from string) Reasons {
	r := newRoster(members)
	return Reasons{roster: r, from: r.find(from)}
}

// Of returns why k leaves for the member with the ID to, or for none if to is empty.
func (r Reasons) Of(k *Key, to string) elect.Reason {
	switch {
	case k.Paused:
		return record.ReasonPaused
	case k.Move != "" && k.Move == to:
		return record.ReasonMove
	}
	if r.from == none {
		return record.ReasonBalance
	}
	from, next := &r.roster.members[r.from], r.roster.find(to)
	switch {
	case from.Draining:
		return record.ReasonDrain
	case k.Pin != "" && !from.pinnedBy(k.Pin) && (next == none || r.roster.members[next].pinnedBy(k.Pin)):
		return record.ReasonPin
	case r.Newer(to):
		return record.ReasonUpgrade
	default:
		return record.ReasonBalance
	}
}

// Newer reports whether the member with the ID to is of a newer revision than the member that keys leave.
func (r Reasons) Newer(to string) bool {
	next := r.roster.find(to)
	return next != none && r.from != none && r.roster.rank[next] > r.roster.rank[r.from]
}
