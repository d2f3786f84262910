package simulation

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
)

// watch is a process's watch of the store.
type watch struct {
	r    *replica
	open bool
}

// begin opens the watch, again and again until it succeeds.
func (v *watch) begin() {
	r := v.r
	r.w.call(r, func() {}, func(ok bool) {
		if !ok {
			v.retry()
			return
		}
		v.open = true
		v.deliver(engine.Notification{Resync: true})
	})
}

func (v *watch) retry() { v.r.w.of(v.r, v.r.w.now+v.r.real(v.r.w.p.Retry), v.begin) }

// notify sends a notification; lost breaks the watch.
func (v *watch) notify(n engine.Notification, lost bool) {
	w := v.r.w
	if !v.open {
		return
	}
	w.of(v.r, w.now+w.latency()+w.some(50*time.Millisecond), func() {
		if !lost {
			v.deliver(n)
			return
		}
		if v.open {
			v.open = false
			v.deliver(engine.Notification{Broken: true})
			v.retry()
		}
	})
}

func (v *watch) deliver(n engine.Notification) {
	n.Arrived = v.r.Now()
	v.r.node.Notified(n)
	v.r.node.Settle()
	v.r.tick()
}
