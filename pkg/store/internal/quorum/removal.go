package quorum

// Removal decides about a tombstone: when its records may be deleted on the servers, and from when on.
//
// The order is: look at all servers; where [Removal.Floor] allows it, raise the floor of each server to it, durably;
// then delete each record that is still as it was shown, by compare-and-set. A tombstone is looked at only when it has
// stood for an hour, and a write that was not answered for that long is never repeated.
//
// With a majority alone, the record of the last server could come back to life. Without the floor, an acceptance that
// is late would put an old value where a new one was created since.
type Removal[V any] struct {
	ballot Ballot
	floor  int64
	shown  servers
	differ bool
	of     int8
}

// Remove begins a removal among so many servers.
func Remove[V any](of int) Removal[V] { return Removal[V]{of: int8(of)} } //nolint:gosec // at most MaxServers

// Shown takes a server's record, and whether it is a tombstone.
func (r *Removal[V]) Shown(server int, a Acceptor[V], tombstone bool) {
	if r.shown == 0 {
		r.ballot = a.Accepted.Ballot
	}
	r.differ = r.differ || !tombstone || a.Accepted.Ballot != r.ballot
	r.floor = max(r.floor, a.RefusedBelow())
	r.shown = r.shown.with(server)
}

// Floor is the counter below which servers refuse where they have no record. False: not all servers have shown one
// tombstone under one ballot. It covers promised ballots too: an acceptance under one of them may still be on its way.
func (r *Removal[V]) Floor() (int64, bool) {
	return r.floor, !r.differ && r.shown.len() == int(r.of)
}
