package ballot

import "fmt"

// Identity is the document by which a server says which part of which quorum it is.
type Identity struct {
	Cluster     string `json:"cluster"`
	Index       int    `json:"index"`          // of the server among those of the quorum, from 0
	Members     string `json:"members"`        // hash of the list of servers, in order
	Incarnation string `json:"incarnation"`    // of the quorum: made once, when it is set up
	By          string `json:"by,omitempty"`   // the set-up or the re-admission that wrote it
	Turn        int64  `json:"turn,omitempty"` // of the set-up: a later one's reservation stays. Re-admissions have none
	Confirmed   bool   `json:"confirmed"`      // that has ended. Until then the server does not count
}

// Standing is what a server is to the quorum.
type Standing uint8

// The standings of servers.
const (
	Unreached Standing = iota // it does not answer, and does not count
	Counts                    // it takes part
	Unset                     // no server has an identity: the quorum was not set up
	Waits                     // too few servers are known to say more
	Lost                      // it has none and others have: it lost its disk, and is re-admitted manually
	Foreign                   // it belongs to something else
)

// Found is one server's identity. Nil ID: it has none.
type Found struct {
	Reached bool
	ID      *Identity
}

// Admission says what each server is, from what all of them show. want is the identity of server 0 as this process
// knows it. Its Incarnation is empty until [Incarnation] has said it once. It is kept from then on: a process that took
// part in one quorum never takes part in what was set up in its place, where nothing is of what it remembers.
//
// A server without a confirmed identity does not count. An empty disk that counted would forget what it had accepted,
// and a majority with it could lose a chosen write.
func Admission(want Identity, found []Found) []Standing {
	all := make([]Standing, len(found))
	confirmed := false
	for _, f := range found {
		confirmed = confirmed || f.ID != nil && f.ID.Confirmed
	}
	for i, f := range found {
		want.Index = i
		all[i] = standing(want, f, confirmed)
	}
	return all
}

// Incarnation is what a majority of the servers says, with identities that are confirmed and else as want. Empty: there
// is no such majority.
func Incarnation(want Identity, found []Found) string {
	count := map[string]int{}
	for i, f := range found {
		if f.ID == nil || !f.ID.Confirmed {
			continue
		}
		want.Index, want.Incarnation = i, f.ID.Incarnation
		if Mismatch(want, *f.ID) == nil {
			count[f.ID.Incarnation]++
		}
	}
	for made, n := range count {
		if n >= Majority(len(found)) {
			return made
		}
	}
	return ""
}

func standing(want Identity, f Found, confirmed bool) Standing {
	known := want.Incarnation != ""
	switch {
	case !f.Reached:
		return Unreached
	case f.ID == nil || !f.ID.Confirmed:
		switch {
		case known:
			return Lost
		case confirmed:
			return Waits
		}
		return Unset
	}
	if !known {
		want.Incarnation = f.ID.Incarnation
	}
	switch {
	case Mismatch(want, *f.ID) != nil:
		return Foreign
	case known:
		return Counts
	}
	return Waits
}

// Mismatch says in what an identity differs from the one wanted; nil: in nothing but who wrote it, and whether it is
// confirmed. Such a server must not be written to.
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

// SetUp says what a set-up has to do with servers that all answer. fresh: none has a confirmed identity, so all are
// reserved, server 0 first, and then confirmed in the same order. Where it was cut off after server 0 was confirmed,
// confirm are those that it had reserved. Both empty: nothing is to be done.
//
// The identities must be read in the order of the servers. Who has reserved server 0 last is the only one that can
// confirm it. It has reserved all others since then, so that none can have counted before. They are its own from then
// on: earlier ones have a lower turn, and later ones begin with server 0.
func SetUp(want Identity, found []Found) (fresh bool, confirm []int, err error) {
	fresh = true
	for _, f := range found {
		fresh = fresh && (f.ID == nil || !f.ID.Confirmed)
	}
	if fresh {
		return true, nil, nil
	}
	if f := found[0]; f.ID == nil || !f.ID.Confirmed {
		return false, nil, fmt.Errorf("the quorum was set up, and server 1 lost its disk: re-admit it")
	}
	made := found[0].ID.Incarnation
	for i, f := range found {
		want.Index, want.Incarnation = i, made
		switch {
		case f.ID == nil || !f.ID.Confirmed && f.ID.By != made:
			return false, nil, fmt.Errorf("the quorum was set up, and server %d lost its disk: re-admit it", i+1)
		case Mismatch(want, *f.ID) != nil:
			return false, nil, fmt.Errorf("server %d belongs to another quorum: %w", i+1, Mismatch(want, *f.ID))
		case !f.ID.Confirmed:
			confirm = append(confirm, i)
		}
	}
	return false, confirm, nil
}

// Jump is how far the floor of a re-admission is above all others. The lost server may have promised ballots that no
// other server has seen. Counters grow by one with each attempt, so none of those comes near.
const Jump = 1 << 32

// Readmission decides about a server that lost its disk. The steps are:
//
//  1. Reserve it: an identity that is not confirmed. Only who has reserved it last can confirm it, on the same disk.
//  2. Look at the others, a majority of all servers: which documents they have a record of, and by which counters they
//     refuse. The floor is [Jump] above the largest of these.
//  3. Raise the others' floors to it.
//  4. Decide again each document that any of them knows, under ballots above the floor.
//  5. Confirm its identity, with that floor. It is empty otherwise.
//
// After that each chosen value is with a majority of the others. No ballot up to the floor can be chosen any more: the
// others have promised higher ones, or have no record and refuse by their floors. standings are those of [Admission].
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
