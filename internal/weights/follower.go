package weights

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/published"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
)

func placeOf(group string) published.Place {
	return published.Place{Space: record.GroupWeights, Group: group}
}

// Status is said with the entries.
type Status struct {
	By string `json:"by"` // the instance that published them
	At int64  `json:"at"` // when, the store's clock in Unix ms
}

// Cleaned implements [published.Part].
func (s Status) Cleaned(c *record.Cleaner) Status {
	c.Text("by", &s.By)
	c.Moment("at", &s.At)
	return s
}

// Published is a group's weights as they were read.
type Published = published.List[Entry, Status]

// Reader reads the weights of one group again and again. It is for one goroutine.
type Reader = published.Reader[Entry, Status]

// NewReader makes a reader that has read nothing.
func NewReader(db store.Store, group string) *Reader {
	return published.NewReader[Entry, Status](db, placeOf(group))
}

type writer = published.Writer[Entry, Status]

// Follower publishes the weights of one group. Its fields are not changed once it runs.
type Follower struct {
	Store    store.Store
	Group    string
	Instance string // of this replica
	Rules    Rules
	// See is what is known of the group's subscriptions now; false: nothing at the moment.
	See    func() (seen map[string]Seen, ok bool)
	Logger logr.Logger
}

// following is what a follower knows.
type following struct {
	known     bool // the rest was read, and nothing is in doubt since
	revision  int64
	at        int64 // of the publication
	published []Entry
	missing   error // the list is to be published again: why
	clock     int64 // the store's, in Unix ms, at readAt
	readAt    time.Time
	scores    Scores
}

// now is the store's clock, in Unix ms.
func (f *following) now() int64 { return f.clock + time.Since(f.readAt).Milliseconds() }

// Run looks at the lags again and again, until ctx ends or another replica publishes by now. token is that of the lock
// under which it runs.
func (f Follower) Run(ctx context.Context, token int64) error {
	w := published.NewWriter[Entry, Status](f.Store, placeOf(f.Group), token)
	again := time.NewTicker(f.Rules.Look)
	defer again.Stop()
	var at following
	for {
		err := f.look(ctx, w, &at)
		switch {
		case errors.Is(err, published.ErrOvertaken):
			return err
		case ctx.Err() != nil:
			return nil
		case err != nil:
			at.known = false
			f.Logger.V(1).Info("Weights were not published, trying again", "group", f.Group, "error", err.Error())
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look follows the lags once, and publishes what has changed by them.
func (f Follower) look(ctx context.Context, w *writer, at *following) error {
	if !at.known || time.Since(at.readAt) >= f.Rules.Every {
		if _, err := f.read(ctx, w, at); err != nil {
			return err
		}
	}
	seen, ok := f.See()
	if !ok {
		return w.Announce(ctx)
	}
	now := at.now()
	at.scores = f.Rules.Score(at.scores, at.published, seen, now)
	next, changed := f.Rules.Next(at.published, at.at, at.scores, now)
	if !changed && at.missing == nil {
		return w.Announce(ctx)
	}
	return f.publish(ctx, w, at, next)
}

// publish publishes over what was published last. If another has published since, that is read, and next is dropped.
func (f Follower) publish(ctx context.Context, w *writer, at *following, next []Entry) error {
	revision := at.revision
	b, err := f.read(ctx, w, at)
	if err != nil || at.revision != revision && at.missing == nil {
		return err
	}
	if err := w.Publish(ctx, b, next, Status{By: f.Instance, At: b.Now}); err != nil {
		return err
	}
	at.revision, at.at, at.published, at.missing = max(0, b.Revision)+1, b.Now, next, nil
	f.Logger.Info("Weights have changed", "group", f.Group, "revision", at.revision, "tasks", len(next))
	return nil
}

// errGone says that the head of the list was deleted out of band.
var errGone = errors.New("its head is gone")

// read reads what is published. Where it cannot be read whole, what was known of it counts, and is to be published.
func (f Follower) read(ctx context.Context, w *writer, at *following) (published.Before[Entry, Status], error) {
	b, err := w.Read(ctx)
	if err != nil {
		return b, err
	}
	missing := b.Broken
	if b.Revision == 0 && at.revision > 0 && missing == nil {
		missing = errGone
	}
	switch {
	case missing == nil:
		at.published, at.at, at.revision = b.Entries, b.Status.At, b.Revision
	case at.published == nil:
		at.published = b.Entries
	}
	if missing != nil && at.missing == nil {
		f.Logger.Error(fmt.Errorf("list %s: %w", placeOf(f.Group), missing),
			"The published weights are made whole from what is known of them", "group", f.Group)
	}
	at.missing, at.known, at.clock, at.readAt = missing, true, b.Now, time.Now()
	return b, nil
}
