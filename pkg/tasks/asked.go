package tasks

import "github.com/shardctl/shardctl/pkg/elect"

// Asked is what operators ask of a task. Each request names the fencing token that the task's key had when it was made.
// One with an older token than the last start has been obeyed, or something newer has happened since. Zero: nothing.
type Asked struct {
	// Restart ends a run under this token, and starts another.
	Restart int64
	// Rerun makes an outcome under this token, or an older one, be forgotten.
	Rerun int64
	// Trigger asks for one tick more, at this moment in Unix ms, of a task with ticks. Each is fired once.
	Trigger int64
	// Resumed is when a pause ended last, Unix ms: ticks up to then do not count.
	Resumed int64
}

// ask takes what operators ask of the task now. token is that of the last start.
func (j *job) ask(a Asked, token int64, now moment) effects {
	j.asked = a
	if j.stop != nil || j.next != nil || j.phase >= leaving {
		return effects{}
	}
	var fx effects
	if a.Restart > 0 && a.Restart >= token {
		fx = j.restart(now)
	}
	if j.ticks != nil && j.phase == idle && a.triggered(j.status) {
		fx = fx.and(j.proceed(now))
	}
	return fx
}

// triggered says whether a tick more was asked for that a task with this status has not fired.
func (a Asked) triggered(status elect.TaskStatus) bool { return a.Trigger > status.LastTrigger }

// restart ends what runs, or waits to be tried again, and starts it. A run of a tick is started for the same tick.
func (j *job) restart(now moment) effects {
	switch {
	case j.phase != active && j.phase != pausing:
		return effects{}
	case j.ticks == nil:
		return j.beginAs(j.task, errRestarted, now)
	case !j.ticks.pending.IsZero(): // it is on its way
		return effects{}
	}
	j.ticks.pending = j.start.ScheduledAt
	if j.phase == active {
		return effects{cut: errRestarted}
	}
	j.phase = idle
	return j.proceed(now)
}
