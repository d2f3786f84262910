package replica

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
)

// problemRegistry keeps what is wrong and since when. Some problems are set and cleared by events; the rest are found
// with each snapshot. Use newProblemRegistry.
type problemRegistry struct {
	mu     sync.Mutex
	marked map[problemID]api.Problem
	since  map[problemID]time.Time // of those found with the last snapshots
	beyond map[string]unsignalled  // by task
}

type problemID struct{ reason, group, task, instance string }

func newProblemRegistry() *problemRegistry {
	return &problemRegistry{
		marked: map[problemID]api.Problem{}, since: map[problemID]time.Time{}, beyond: map[string]unsignalled{},
	}
}

// unsignalled are processes of a task that the guard may not signal.
type unsignalled struct {
	at   time.Time // of the attempt
	pids []int
}

// because completes the message of StopStuck. It is empty for attempts before a stop that began at since.
func (s unsignalled) because(since time.Time) string {
	if len(s.pids) == 0 || s.at.Before(since) {
		return ""
	}
	return fmt.Sprintf(": its processes %v run as another user, and may not be signalled from here", s.pids)
}

// stuck sets the problem of a task that does not stop since a moment.
func (r *problemRegistry) stuck(p api.Problem, since time.Time) {
	r.mu.Lock()
	because := r.beyond[p.Task].because(since)
	r.mu.Unlock()
	p.Reason = api.ProblemStopStuck
	p.Message = fmt.Sprintf(
		"does not stop since %s; its key is not handed over while it runs%s", since.UTC().Format(time.RFC3339), because,
	)
	r.set(p)
}

// unsignalled notes which processes of a task may not be signalled: the guard says so once, before or after the task counts
// as stuck.
func (r *problemRegistry) unsignalled(task string, pids []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := unsignalled{time.Now(), pids}
	r.beyond[task] = s
	for id, p := range r.marked {
		if id.reason == api.ProblemStopStuck && id.task == task {
			p.Message += s.because(time.Time{})
			r.marked[id] = p
		}
	}
}

func idOf(p api.Problem) problemID { return problemID{p.Reason, p.Group, p.Task, p.Instance} }

func (r *problemRegistry) set(p api.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Since = api.Millis(time.Now().UnixMilli())
	if known, ok := r.marked[idOf(p)]; ok {
		p.Since = known.Since
	}
	r.marked[idOf(p)] = p
}

// clear removes every problem of a reason.
func (r *problemRegistry) clear(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.marked {
		if id.reason == reason {
			delete(r.marked, id)
		}
	}
}

func (r *problemRegistry) clearTask(reason, task string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.marked {
		if id.reason == reason && id.task == task {
			delete(r.marked, id)
		}
	}
	if reason == api.ProblemStopStuck {
		delete(r.beyond, task)
	}
}

// with returns those that are set and those found just now, each since it was first seen. A problem found that has not
// lasted as long as it must is left out.
func (r *problemRegistry) with(findings []view.Finding, now time.Time) []api.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []api.Problem
	for _, p := range r.marked {
		all = append(all, p)
	}
	since := make(map[problemID]time.Time, len(findings))
	for _, f := range findings {
		id := idOf(f.Problem)
		if since[id] = r.since[id]; since[id].IsZero() {
			since[id] = now
		}
		if now.Sub(since[id]) < f.Lasting {
			continue
		}
		f.Problem.Since = api.Millis(since[id].UnixMilli())
		all = append(all, f.Problem)
	}
	r.since = since
	return all
}

func storeUnreachable(why string) api.Problem {
	return api.Problem{Reason: api.ProblemStoreUnreachable, Severity: api.SeverityError, Message: why}
}

func restartRequired(instance string, fields []string) api.Problem {
	return api.Problem{
		Reason: api.ProblemRestartRequired, Severity: api.SeverityWarning, Instance: instance,
		Message: "changed and in force only after a restart: " + strings.Join(fields, ", "),
	}
}

func configInvalid(instance string, err error) api.Problem {
	message := err.Error()
	var all decode.Errors
	if errors.As(err, &all) && len(all) > 1 {
		message = fmt.Sprintf("%v (and %d more)", all[0], len(all)-1)
	}
	return api.Problem{
		Reason: api.ProblemConfigInvalid, Severity: api.SeverityError, Instance: instance,
		Message: "the changed configuration is refused, the last good one stays: " + message,
	}
}

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
		if !snapshot.FoundBy(&p, instance) || p.Task != "" && p.Instance != "" && p.Instance != instance {
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
