package elect

import "time"

// Session is this process's session, and whether its lease is valid now. It asks only the local clock, as [Lease.Valid]
// does. The ID is empty before the first session is open. It is for those who keep documents of their own under the
// session: others may take them over once its document says that it is dead.
func (e *Elector) Session() (id string, valid bool) {
	v := e.lease.Load()
	return v.session, v.open && !e.clock.Now().Reached(v.acked, e.p.Renew)
}

// LeaseDuration is T, the duration of this process's lease, as the configuration or the default has it.
func (e *Elector) LeaseDuration() time.Duration { return e.cfg.LeaseDuration }
