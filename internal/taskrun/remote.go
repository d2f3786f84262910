package taskrun

import (
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// RemoteLease is the time that an endpoint elsewhere was promised for a key: it may work on it until then, whatever
// becomes of this replica. The key stays here until that time is over, or the endpoint has acknowledged that it
// stopped. It belongs to one hold and outlives failed starts under it. Its methods are called by one run at a time.
type RemoteLease struct {
	note  func(until time.Time) error // informs what frees the key; nil: there is nothing to inform
	until time.Time
	late  time.Time
	start tasks.Start
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
func (l *RemoteLease) Begin(start tasks.Start) { l.start, l.seq = start, 0 }

// Start is that of the last Begin.
func (l *RemoteLease) Start() tasks.Start { return l.start }

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
