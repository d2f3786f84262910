package tasks

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Identity says which task a run is of. It has its group and name, its place in the braces of its name (empty without
// braces) and its labels, which must not be changed.
type Identity struct {
	Group, Name, Index string
	Labels             map[string]string
	Discovered         Discovered
}

// Key is what is locked for the task.
func (i Identity) Key() elect.Key { return elect.NewKey(i.Group, i.Name) }

// Discovered is what a task was made for by its group's discover; zero for a task of a list. Partition is empty where
// there are none.
type Discovered struct{ Name, Partition string }

// Start is one start of a task's work.
type Start struct {
	// Token is the fencing token of this start: larger than that of every start of the task before it, anywhere.
	Token int64
	// Attempt counts from 1: tries of one tick, or starts of a task without ticks since the replica owns it.
	Attempt int
	// ScheduledAt is the tick that this start is for; zero for a task without ticks.
	ScheduledAt time.Time
}

// Tick is ScheduledAt as commands and endpoints see it: RFC 3339, in UTC so that it is the same on every replica.
func (s Start) Tick() string { return s.ScheduledAt.UTC().Format(time.RFC3339Nano) }

// Lease is what a run may ask about its hold on the key. Its methods may be called concurrently.
type Lease interface {
	Key() elect.Key
	Session() string
	// Valid says whether work may go on now.
	Valid() bool
	// Deadline is the moment, on the local clock and ever later while the lease is renewed, at which the work must
	// have ended.
	Deadline() time.Time
	// Checkpoint is the value kept with the key, under the token of this run: once the next run has read it or set it,
	// this one can change it no more.
	elect.Checkpoint
}

// Advance gives a run that goes on a new, larger token. What the lease's Checkpoint does from then on is under it, and
// what it has under way fails once that has read or set the value. With an error the run keeps the token that it had.
// Errors: [elect.ErrLeaseLost], [elect.ErrReleased], or the context's cause.
type Advance func(ctx context.Context) (token int64, err error)

// RemoteLease is the time that an endpoint elsewhere was promised for a key: it may work on it until then, whatever
// becomes of this replica. The key stays here until that time is over, or the endpoint has acknowledged that it
// stopped. It belongs to one hold and outlives failed starts under it. Its methods are called by one run at a time.
type RemoteLease struct {
	note  func(until time.Time) error // informs what frees the key; nil: there is nothing to inform
	until time.Time
	late  time.Time
	start Start
	seq   int
}

// NewRemoteLease makes one under which nothing is promised. note informs what frees the key; nil: nothing
// does.
func NewRemoteLease(note func(until time.Time) error) *RemoteLease { return &RemoteLease{note: note} }

// Until is when the promise is over; the zero time when nothing is promised.
func (l *RemoteLease) Until() time.Time { return l.until }

// Late is until when a message that was not answered may still arrive; the zero time: each was answered. A stop that is
// acknowledged earlier ends nothing: the endpoint may hear after it that it has the key.
func (l *RemoteLease) Late() time.Time { return l.late }

// Unanswered notes a message that was not answered, and until when it may arrive.
func (l *RemoteLease) Unanswered(until time.Time) {
	if until.After(l.late) {
		l.late = until
	}
}

// Begin notes the start that messages are sent for from now on, and numbers them from 1.
func (l *RemoteLease) Begin(start Start) { l.start, l.seq = start, 0 }

// Start is that of the last Begin.
func (l *RemoteLease) Start() Start { return l.start }

// Next numbers a message of the start. A repeated one has a number of its own, since it says another time.
func (l *RemoteLease) Next() int {
	l.seq++
	return l.seq
}

// Promise notes that the endpoint may work until the given time, before it learns of it; the zero time ends the
// promise. With an error what frees the key may not know: a longer promise does not hold then, a shorter one does
// here.
func (l *RemoteLease) Promise(until time.Time) error {
	before := l.until
	l.until = until
	if l.note == nil {
		return nil
	}
	err := l.note(until)
	if err != nil && until.After(before) {
		l.until = before
	}
	return err
}
