package tasks

import (
	"context"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

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

// Hold is the lease of a running task, as package elect hands it out: *elect.Lease is one.
type Hold interface {
	Lease
	// Token is that of the last claim or Advance.
	Token() int64
	// Status is what the lock says of the task now, for what carries over from an earlier owner: the last tick, an
	// outcome.
	Status() elect.TaskStatus
	// Report notes a new status in the lock, soon and at most the newest. It does not wait. When the run has ended
	// the lock is released with the newest: that keeps an outcome.
	Report(elect.TaskStatus)
	// Advance writes the status under the lock and returns a new, larger token, once the write is known to have
	// happened. Every start after the first, and every tick, does so before it runs anything. It fails when the
	// lease is lost, or the key is being released.
	Advance(ctx context.Context, status elect.TaskStatus) (token int64, err error)
	// Checkpoint is the value kept with the key, under the token of now, for good. Value and SetValue are under that of
	// each call.
	Checkpoint() elect.Checkpoint
}

// runLease is the lease as one run sees it: its value is under the token of that run.
type runLease struct {
	Lease
	hold     Hold
	advanced func(token int64) // takes what an Advance gave; 0: nothing

	mu    sync.Mutex
	value elect.Checkpoint
	token int64 // of the newest Advance; 0: there was none
	over  bool
}

func newRunLease(hold Hold, advanced func(token int64)) *runLease {
	return &runLease{Lease: hold, hold: hold, advanced: advanced, value: hold.Checkpoint()}
}

// Advance gives the run that goes on a new, larger token, and puts the value under it.
func (l *runLease) Advance(ctx context.Context) (int64, error) {
	if l.isOver() {
		return 0, elect.ErrReleased
	}
	token, err := l.hold.Advance(ctx, l.hold.Status())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return 0, elect.ErrReleased // the token is the next start's
	}
	if err == nil {
		l.token, l.value = token, l.hold.Checkpoint()
	}
	l.advanced(token) // also after an error: it may have written an older status over a newer one
	return token, err
}

// end says that the run has returned, and gives the token of its newest Advance; 0: there was none.
func (l *runLease) end() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	return l.token
}

func (l *runLease) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

func (l *runLease) checkpoint() elect.Checkpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value
}

// Value implements [elect.Checkpoint].
func (l *runLease) Value(ctx context.Context) ([]byte, error) { return l.checkpoint().Value(ctx) }

// SetValue implements [elect.Checkpoint].
func (l *runLease) SetValue(ctx context.Context, value []byte) error {
	return l.checkpoint().SetValue(ctx, value)
}

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

// NewRemoteLease makes one under which nothing is promised. note is [Config.RemoteLease] for one hold; nil: none.
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
