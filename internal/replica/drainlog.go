package replica

import (
	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect/record"
)

// drainLog logs when operators drain or cordon this instance, and when they take that back. It is for one goroutine.
type drainLog struct {
	log      logr.Logger
	instance string
	known    map[record.OverrideKind]bool
}

// note takes what operators ask for now.
func (l *drainLog) note(overrides []record.Override) {
	now := map[record.OverrideKind]bool{}
	for _, o := range overrides {
		if o.Scope != record.ScopeInstance || o.Name != l.instance {
			continue
		}
		if now[o.Kind] = true; !l.known[o.Kind] {
			l.log.Info(
				"An operator wants less of this instance", "verb", string(o.Kind), "by", o.By, "reason", o.Reason,
			)
		}
	}
	for kind := range l.known {
		if !now[kind] {
			l.log.Info("This instance takes part again as before", "verb", "un"+string(kind))
		}
	}
	l.known = now
}
