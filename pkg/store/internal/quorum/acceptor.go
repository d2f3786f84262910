package quorum

// Acceptor is what one server keeps of one document. All of it is durable before the server answers, promises too: a
// forgotten promise lets an older ballot win.
type Acceptor[V any] struct {
	// Floor is a counter: no ballot up to it is ever taken. A record that is made where none is begins with the floor
	// of its server. See [Removal].
	Floor    int64
	Promised Ballot // no ballot below it is taken any more
	Accepted Accepted[V]
}

// Prepare promises b, unless a higher ballot was promised or b is not above the floor. A promise may be repeated. The
// answer is the record that is returned: what was accepted, and by which ballot it refuses.
func (a Acceptor[V]) Prepare(b Ballot) (Acceptor[V], bool) {
	if !a.takes(b) {
		return a, false
	}
	a.Promised = b
	return a, true
}

// Accept takes v under b, and promises next with it, where next is above b. It may be repeated: what was accepted under
// b is not refused.
func (a Acceptor[V]) Accept(b Ballot, v V, next Ballot) (Acceptor[V], bool) {
	if a.Accepted.Ballot == b {
		return a, true
	}
	if !a.takes(b) {
		return a, false
	}
	a.Promised, a.Accepted = b, Accepted[V]{Ballot: b, Value: v}
	if next.Compare(b) > 0 {
		a.Promised = next
	}
	return a, true
}

func (a Acceptor[V]) takes(b Ballot) bool { return b.Counter > a.Floor && b.Compare(a.Promised) >= 0 }

// RefusedBelow is the counter that ballots must exceed here, whoever proposes them.
func (a Acceptor[V]) RefusedBelow() int64 { return max(a.Floor, a.Promised.Counter) }
