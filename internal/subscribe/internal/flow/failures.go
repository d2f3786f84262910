package flow

import (
	"slices"
	"time"
)

// The least time between two times that attempts are kept, but for the last. It doubles while messages fail.
const (
	keepPause = time.Second
	keepMost  = 30 * time.Second
)

// failures are the messages that failed, and when their attempts are to be kept.
type failures[M any] struct {
	failing []*Item[M] // and not worked on since
	counted int        // failures, of all messages
	kept    int        // counted when attempts were kept
	keepAt  time.Time  // not before then
	pause   time.Duration
}

// add notes n more failures of a message.
func (x *failures[M]) add(item *Item[M], n int) {
	if x.counted += n; item.Failures == n {
		x.failing = append(x.failing, item)
	}
}

// remove notes that a message that had failed is done.
func (x *failures[M]) remove(item *Item[M]) {
	x.failing = slices.DeleteFunc(x.failing, func(i *Item[M]) bool { return i == item })
	if len(x.failing) == 0 {
		x.pause = 0
	}
}

// Counted is how many failures have counted, of all messages.
func (f *Flow[M]) Counted() int { return f.failures.counted }

// Failing are the messages that have failed and are not worked on yet.
func (f *Flow[M]) Failing() []*Item[M] { return f.failures.failing }

// Worst is the message with the most attempts of those that have failed and are not worked on yet; nil: none has.
func (f *Flow[M]) Worst() *Item[M] {
	var worst *Item[M]
	for _, item := range f.failures.failing {
		if worst == nil || item.Attempts() > worst.Attempts() {
			worst = item
		}
	}
	return worst
}

// Unkept says that failures have counted since attempts were kept.
func (f *Flow[M]) Unkept() bool { return f.failures.kept < f.failures.counted }

// Keep says when attempts are to be kept; at once where that is now, and they count as kept then. Zero: they are kept.
func (f *Flow[M]) Keep(now time.Time) (due time.Time) {
	x := &f.failures
	switch {
	case !f.Unkept():
		return time.Time{}
	case !f.stopped && now.Before(x.keepAt):
		return x.keepAt
	}
	x.kept = x.counted
	x.pause = min(max(2*x.pause, keepPause), keepMost)
	x.keepAt = now.Add(x.pause)
	return now
}

// NotKept has attempts kept again that were not. The last time is not repeated.
func (f *Flow[M]) NotKept() {
	if !f.stopped {
		f.failures.kept = -1
	}
}
