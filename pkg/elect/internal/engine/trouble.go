package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Trouble is what the store has said last to those who wait for it. Each of its methods returns nil where the store has
// answered since, or was not asked.
type Trouble struct {
	self    *Self
	keys    *Keys
	mutexes *Mutexes
	heart   *heart
}

// Session returns the last error of the store that keeps the session from being opened or renewed.
func (t Trouble) Session() error { return t.self.trouble }

// Look returns the last error that keeps it from being known which sessions live.
func (t Trouble) Look() error { return cmp.Or(t.heart.unseen, t.self.trouble) }

// Key returns the last error of the store that keeps a key waiting.
func (t Trouble) Key(key record.Key) error {
	return cmp.Or(t.keys.Held.WriteTrouble(key), t.self.trouble, t.heart.unseen)
}

// Mutex returns the last error of the store that keeps the calls for a mutex waiting.
func (t Trouble) Mutex(id string) error {
	return cmp.Or(t.mutexes.All.trouble(id), t.self.trouble, t.heart.unseen)
}

// Closing returns the last error of the store that keeps the session from ending.
func (t Trouble) Closing() (err error) {
	for _, key := range slices.Sorted(maps.Keys(t.keys.Held)) {
		err = cmp.Or(err, t.keys.Held.WriteTrouble(key))
	}
	for _, x := range t.mutexes.All.sorted() {
		err = cmp.Or(err, t.mutexes.All.trouble(x.id))
	}
	return cmp.Or(err, t.self.trouble)
}

// refused returns what the store says for good to all that is left to do after [Engine.Close]; nil: some of it may yet
// be done.
func (t Trouble) refused() error {
	var last error
	for _, h := range t.keys.Held {
		if last = h.trouble(); !driver.Lasting(last) {
			return nil
		}
	}
	for id, x := range t.mutexes.All.byID {
		if x.idle {
			continue
		}
		if last = t.mutexes.All.trouble(id); !driver.Lasting(last) {
			return nil
		}
	}
	if last = cmp.Or(last, t.self.trouble); !driver.Lasting(last) {
		return nil
	}
	return last
}

// Unanswered returns the error of what the store has not answered for d. trouble is what it has said last; nil:
// nothing.
func Unanswered(d time.Duration, trouble error) error {
	switch {
	case trouble == nil:
		return fmt.Errorf("%w: no answer for %v", driver.ErrUnavailable, d)
	case errors.Is(trouble, driver.ErrUnavailable):
		return fmt.Errorf("no answer for %v: %w", d, trouble)
	default:
		return fmt.Errorf("%w: no answer for %v: %w", driver.ErrUnavailable, d, trouble)
	}
}
