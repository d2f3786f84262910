package elect

import "time"

// observeStart tells the hooks how long a key was without a run.
func (e *Elector) observeStart(h *holding) {
	group := h.key.Group()
	switch {
	case h.from != "" && h.from != e.loop.session.id:
		if e.cfg.Hooks.Failover != nil {
			e.cfg.Hooks.Failover(group, e.clock.Now().HolderElapsed(h.dying))
		}
	case h.handedAt > 0:
		if e.cfg.Hooks.Handover != nil {
			e.cfg.Hooks.Handover(group, max(0, time.Duration(e.storeNow()-h.handedAt)*time.Millisecond))
		}
	}
}
