package quorum

// Reading is a read of one document in one round trip. It never prepares: a reader that does breaks the round trip of
// everyone who writes.
type Reading[V any] struct {
	shown [MaxServers]Accepted[V]
	from  servers
	of    int8
}

// Read begins a read among so many servers.
func Read[V any](of int) Reading[V] { return Reading[V]{of: int8(of)} } //nolint:gosec // at most MaxServers

// Shown takes a server's answer. A record that is absent shows the zero value.
func (r *Reading[V]) Shown(server int, a Acceptor[V]) {
	r.shown[server], r.from = a.Accepted, r.from.with(server)
}

// Answers is how many servers have answered.
func (r *Reading[V]) Answers() int { return r.from.len() }

// Agreed is what the register holds where a majority shows one accepted ballot. That value stands: had a later one been
// chosen before the read began, one of these servers would show it. Else look again, twice at most and after a pause
// with jitter: a write under way settles by then. After that a full round that proposes what it finds decides.
func (r *Reading[V]) Agreed() (Accepted[V], bool) {
	for i := range int(r.of) {
		same := 0
		for j := range int(r.of) {
			if r.from.has(i) && r.from.has(j) && r.shown[i].Ballot == r.shown[j].Ballot {
				same++
			}
		}
		if same >= Majority(int(r.of)) {
			return r.shown[i], true
		}
	}
	return Accepted[V]{}, false
}
