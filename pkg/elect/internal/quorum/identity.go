package quorum

import "fmt"

// Identity is the document by which a server says which part of which quorum it is.
type Identity struct {
	Cluster     string
	Index       int    // of the server among those of the quorum, from 0
	Members     string // hash of the list of servers, in order
	Incarnation string // of the quorum: made once, when it is set up
	Confirmed   bool   // all servers had their identity when this was written
}

// Standing is what is to be done with a server.
type Standing uint8

// The standings of servers.
const (
	Unreached Standing = iota // it does not answer, and does not count
	Counts                    // it takes part
	Unset                     // write its identity: no server has a confirmed one
	Confirm                   // confirm its identity: all servers have one
	Waits                     // it has its identity, and others do not yet
	Lost                      // it has none and others have: it lost its disk, and is re-admitted manually
	Foreign                   // it belongs to something else
)

// Found is one server's identity. Nil ID: it has none.
type Found struct {
	Reached bool
	ID      *Identity
}

// Admission says what to do with each server, from what all of them show. want is the identity of server 0 as this
// process would write it. Its Incarnation counts only where none is set up. An empty disk that counted would forget what
// it had accepted, and a majority with it could lose a chosen write.
//
// The first set-up needs all servers. Each is given its identity, with the incarnation of server 0, then each is
// confirmed. Nothing is written under identities that are not confirmed, so that a set-up may be cut off at any point.
func Admission(want Identity, found []Found) []Standing {
	all := make([]Standing, len(found))
	missing := 0
	for _, f := range found {
		if f.ID == nil {
			missing++
		}
	}
	var confirmed bool
	want.Incarnation, confirmed = Incarnation(want.Incarnation, found)
	for i, f := range found {
		want.Index = i
		all[i] = standing(want, f, confirmed, missing)
	}
	if !confirmed {
		holdUnset(found, all)
	}
	return all
}

// Incarnation is that of the quorum: what a confirmed identity says, else server 0, else fresh.
func Incarnation(fresh string, found []Found) (made string, confirmed bool) {
	for _, f := range found {
		if f.ID != nil && f.ID.Confirmed {
			return f.ID.Incarnation, true
		}
	}
	if len(found) > 0 && found[0].ID != nil {
		return found[0].ID.Incarnation, false
	}
	return fresh, false
}

func standing(want Identity, f Found, confirmed bool, missing int) Standing {
	switch {
	case !f.Reached:
		return Unreached
	case f.ID == nil && confirmed:
		return Lost
	case f.ID == nil:
		return Unset
	case Mismatch(want, *f.ID) != nil:
		return Foreign
	case f.ID.Confirmed:
		return Counts
	case confirmed || missing == 0:
		return Confirm
	}
	return Waits
}

// holdUnset lets a first set-up wait until all servers answer, and lets server 0 go before the others: its incarnation
// is theirs.
func holdUnset(found []Found, all []Standing) {
	for i := range all {
		for j, f := range found {
			first := j == 0 && i > 0 && f.ID == nil
			if all[i] == Unset && (!f.Reached || first) {
				all[i] = Waits
			}
		}
	}
}

// Mismatch says in what an identity differs from the one wanted; nil: in nothing but being confirmed. Such a server must
// not be written to.
func Mismatch(want, got Identity) error {
	differs := func(what string, want, got any) error {
		return fmt.Errorf("its %s is %v, want %v", what, got, want)
	}
	switch {
	case got.Cluster != want.Cluster:
		return differs("cluster", want.Cluster, got.Cluster)
	case got.Members != want.Members:
		return differs("list of servers", want.Members, got.Members)
	case got.Index != want.Index:
		return differs("place in the list", want.Index+1, got.Index+1)
	case got.Incarnation != want.Incarnation:
		return differs("incarnation", want.Incarnation, got.Incarnation)
	}
	return nil
}

// Jump is how far the counter of a re-admission is above all others. The lost server may have promised ballots that no
// other server has seen. Counters grow by one with each attempt, so none of those comes near.
const Jump = 1 << 32

// Readmission decides about a server that lost its disk. Every document that another server knows of is decided again,
// on a majority of all servers without it, under a counter that is [Jump] above every counter that they have shown.
// Servers that have no record of it take part. The documents are copied to the lost server, its floor is set to the
// largest counter used, and last of all it gets its identity. One server at a time: standings are those of [Admission].
func Readmission(standings []Standing, server int) error {
	if server < 0 || server >= len(standings) {
		return fmt.Errorf("server %d: want 1 to %d", server+1, len(standings))
	}
	if s := standings[server]; s != Lost {
		return fmt.Errorf("server %d did not lose its identity: nothing is to be done", server+1)
	}
	counted := 0
	for i, s := range standings {
		if i != server && s == Counts {
			counted++
		}
	}
	if need := Majority(len(standings)); counted < need {
		return fmt.Errorf("%d of the other servers answer and count, want %d: a majority of all", counted, need)
	}
	return nil
}
