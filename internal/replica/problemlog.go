package replica

import (
	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// problemLog logs problems as they come and go, each once. What is wrong from the start, before there is a store, is
// only worth a line when it is still so afterwards. It is for one goroutine at a time.
type problemLog struct {
	log   logr.Logger
	begun bool
	known map[problemID]bool // false: it was there from the start, and is not logged
}

// note takes the problems of a snapshot of this instance.
func (l *problemLog) note(problems []api.Problem, instance string) {
	first := !l.begun
	l.begun = true
	if len(problems) == 0 && len(l.known) == 0 {
		return
	}
	now := make(map[problemID]bool, len(problems))
	for _, p := range problems {
		if !status.FoundBy(&p, instance) || p.Task != "" && p.Instance != "" && p.Instance != instance {
			continue // its owner, or who found it, logs it
		}
		id := idOf(p)
		logged, known := l.known[id]
		now[id] = logged || !first && !known
		if now[id] && !logged {
			l.found(p)
		}
	}
	for id, logged := range l.known {
		if _, still := now[id]; logged && !still {
			l.of(id).Info("A problem is over")
		}
	}
	l.known = now
}

func (l *problemLog) found(p api.Problem) {
	log := l.of(idOf(p)).WithValues("severity", string(p.Severity), "message", p.Message)
	if p.Severity == api.SeverityError {
		log.Error(nil, "A problem was found")
		return
	}
	log.Info("A problem was found")
}

// of is the log with what the problem is about.
func (l *problemLog) of(id problemID) logr.Logger {
	log := l.log.WithValues("reason", id.reason)
	if id.group != "" {
		log = log.WithValues("group", id.group)
	}
	if id.task != "" {
		log = log.WithValues("key", id.task)
	}
	if id.instance != "" {
		log = log.WithValues("peer", id.instance)
	}
	return log
}
