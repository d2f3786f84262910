package replica

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/runs"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/elect"
)

// The types of events that a replica notes, in addition to those of its elector.
const (
	eventJoined    = "Joined"   // a replica began to take part
	eventDraining  = "Draining" // a replica stops and hands its tasks over
	eventLeft      = "Left"     // a replica left in order
	eventCrashLoop = snapshot.EventCrashLoop
	eventRunFailed = snapshot.EventRunFailed
	eventFailed    = snapshot.EventFailed
	eventMissed    = "TickMissed"
	eventRefused   = "Refused" // a changed configuration was not taken

	eventApplicationReady   = "ApplicationReady"   // the application beside a replica is given keys
	eventApplicationGone    = "ApplicationGone"    // it has ended, is silent, or says that it is not ready
	eventApplicationRefused = "ApplicationRefused" // another process called as well
)

// journal notes what happens to the tasks of this replica: runs, and events. It implements [supervisor.Journal].
type journal struct {
	instance string
	view     func() *cluster.View
	note     func(record.Event)
	keep     func(elect.Key, record.Run)

	mu    sync.Mutex
	noted map[elect.Key]time.Time // when a failed run was last worth an event, of tasks whose last run failed
}

// failedGap is the least time between two events of failed runs of one task: one that fails each second should not
// push out everything else. Its runs show them all.
const failedGap = time.Minute

// Ran implements [supervisor.Journal].
func (j *journal) Ran(key elect.Key, past taskrun.PastRun) {
	run := runs.Past(j.instance, past)
	run.Error = clip(run.Error)
	if past.Ended.IsZero() {
		run.Instance = j.ran(key, run.Start)
	}
	j.keep(key, run)
	failed := past.Result == taskrun.ResultFailed || past.Result == taskrun.ResultTimeout
	if run.Tick == 0 || past.Again || !j.worthNoting(key, past, failed) {
		return
	}
	j.note(record.Event{
		Type: eventRunFailed, Reason: elect.Reason(run.Result), Key: key, To: j.instance, Token: run.Token,
		Message: clip(fmt.Sprintf("the run of %s failed after %s, at attempt %d: %s",
			past.Start.Tick(), past.Ended.Sub(past.Began).Round(time.Millisecond), run.Attempt, run.Error)),
	})
}

// worthNoting says whether a run is to be an event: the first that fails, and then one a minute.
func (j *journal) worthNoting(key elect.Key, past taskrun.PastRun, failed bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if past.Result == taskrun.ResultSucceeded {
		delete(j.noted, key)
	}
	if last, again := j.noted[key]; !failed || again && past.Ended.Sub(last) < failedGap {
		return false
	}
	if j.noted == nil {
		j.noted = map[elect.Key]time.Time{}
	}
	j.noted[key] = past.Ended
	return true
}

// ran is the instance that owned the key when a run began. It is the one before this one. Or it is this one, which has
// adopted the key after an outage of the store. The view may not show the claim yet.
func (j *journal) ran(key elect.Key, began int64) string {
	v := j.view()
	lock := v.Lock(key)
	switch {
	case lock.Session == "", lock.Session == v.Session && lock.Since > began:
		return lock.From
	default:
		return lock.Instance
	}
}

// Missed implements [supervisor.Journal].
func (j *journal) Missed(key elect.Key, tick time.Time, late time.Duration) {
	j.note(record.Event{
		Type: eventMissed, Key: key, To: j.instance, Message: fmt.Sprintf(
			"the tick of %s came %s late and is not run", tick.UTC().Format(time.RFC3339), late.Round(time.Second),
		),
	})
}

// Looping implements [supervisor.Journal].
func (j *journal) Looping(key elect.Key, crash taskrun.CrashLoop) {
	why := "it ended"
	if crash.Err != nil {
		why = crash.Err.Error()
	}
	j.note(record.Event{
		Type: eventCrashLoop, Reason: "CrashLoop", Key: key, To: j.instance, Message: clip(fmt.Sprintf(
			"crash-looping: %s, %d failures in a row, next try at %s", why, crash.Failures,
			crash.Next.UTC().Format(time.RFC3339),
		)),
	})
}

// Failed implements [supervisor.Journal].
func (j *journal) Failed(key elect.Key, why error) {
	text := strings.TrimPrefix(why.Error(), taskrun.ErrDone.Error()+": ")
	j.note(record.Event{Type: eventFailed, Reason: "Failed", Key: key, To: j.instance, Message: clip(text)})
}

// lateOutput is how long after its end a run's output may still come in.
const lateOutput = 200 * time.Millisecond

// applicationJournal notes what happens to the application beside an instance.
type applicationJournal struct {
	instance string
	was      ApplicationState // when it was last looked at, but for times without a lease
}

// next is what has happened until now. A lease that is over is an event of the instance: what comes of the application
// meanwhile is seen with the next lease.
func (j *applicationJournal) next(is *ApplicationState) (events []record.Event) {
	if is.lacksLease() {
		return nil
	}
	was, instance := j.was, j.instance
	j.was = *is
	another := is.App != was.App
	if was.calls() && (another || !is.calls()) {
		reason, message := is.Reason, is.Message
		if another && is.App != "" {
			reason, message = "Replaced", "another process has taken its place"
		}
		events = append(events, record.Event{
			Type: eventApplicationGone, Reason: elect.Reason(reason), From: instance,
			Message: clip(was.who() + ": " + message),
		})
	}
	if is.calls() && (another || !was.calls()) {
		events = append(events, record.Event{
			Type: eventApplicationReady, Reason: "Ready", To: instance, Message: is.who() + " calls, and is ready",
		})
	}
	if is.Refused != "" && (another || was.Refused == "") {
		events = append(events, record.Event{
			Type: eventApplicationRefused, Reason: "OtherApplication", From: instance, Message: fmt.Sprintf(
				"%s calls as well: it is refused while %s may run", is.Refused, is.App,
			),
		})
	}
	return events
}

// clip cuts a text to what the store takes.
func clip(text string) string { return view.Clip(text, elect.MaxText) }
