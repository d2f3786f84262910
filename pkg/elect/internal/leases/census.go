package leases

import "github.com/shardctl/shardctl/pkg/elect/protocol"

// Census bounds how many locks name this session while the store counts them. It looks at keys as they change,
// never at all of them.
type Census struct {
	held  int    // keys that are not free
	named uint32 // keys whose locks are sure to name this session, unless somebody edited them manually
	round uint32 // counts the counts
	least int    // locks that were sure to name this session ever since the last count began
	most  int    // keys that were not free at any time since then
}

// Begin begins a count of the locks that name this session: the answer is compared with Counted.
func (c *Census) Begin() {
	c.round++
	c.least, c.most = int(c.named), c.held
}

// Counted is how many locks may have named this session at some moment since Begin, unless somebody edited one
// manually. The least are those that were sure to do so all the time. The most are all whose keys were not free at any
// time.
func (c *Census) Counted() (least, most int) { return c.least, c.most }

// claimed takes note of a key that was free.
func (c *Census) claimed() {
	c.held++
	c.most++
}

// freed takes note of a key that is free.
func (c *Census) freed() { c.held-- }

// changed takes note of what an event made of a key. A holding remembers in which round its lock became sure to
// name this session, plus one.
func (c *Census) changed(h *holding) {
	switch sure := h.sure(); {
	case sure && h.named == 0:
		c.named++
		h.named = c.round + 1
	case !sure && h.named > 0:
		c.named--
		if h.named <= c.round {
			c.least--
		}
		h.named = 0
	}
}

// sure says whether the lock is sure to name this session, unless somebody edited it manually.
func (h *holding) sure() bool {
	switch h.m.Phase {
	case protocol.Claiming, protocol.Idle:
		return h.m.Token > 0
	case protocol.Running, protocol.Stopping:
		return !h.m.Lost
	case protocol.Free, protocol.Releasing:
	}
	return false
}
