package leases

import "github.com/shardctl/shardctl/pkg/elect/protocol"

// census bounds how many locks name this session while the store counts them. It looks at keys as they change,
// never at all of them.
type census struct {
	named uint32 // keys whose locks are sure to name this session, unless somebody edited them manually
	round uint32 // counts the counts
	least int    // locks that were sure to name this session ever since the last count began
	most  int    // keys that were not free at any time since then
}

// begin begins a count while so many keys are not free.
func (c *census) begin(held int) {
	c.round++
	c.least, c.most = int(c.named), held
}

// claimed takes note of a key that was free.
func (c *census) claimed() { c.most++ }

// changed takes note of what an event made of a key. A holding remembers in which round its lock became sure to
// name this session, plus one.
func (c *census) changed(h *holding) {
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
