package discover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/published"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Looker is what looks at one group. Its fields are not changed once it runs.
type Looker struct {
	Store    store.Store
	Group    string
	Instance string // of this replica
	Lister   Lister
	Env      Env
	Interval time.Duration
	Rules    Rules
	Logger   logr.Logger
}

const (
	firstRetry = time.Second      // after a look that failed; doubled up to the interval
	leastWait  = 10 * time.Second // at least so long is a lister waited for
	// noteEvery is how often it is written down that a look succeeded and found nothing new.
	noteEvery = 30 * time.Second
)

// Run looks at once and then at the interval, until ctx ends or another replica looks by now. token is that of the lock
// under which it runs.
func (l Looker) Run(ctx context.Context, token int64) error {
	p := newWriter(l.Store, l.Group, token)
	failures := 0
	for {
		began := time.Now()
		err := l.Look(ctx, p)
		wait := l.Interval - time.Since(began)
		switch {
		case errors.Is(err, published.ErrOvertaken):
			return err
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the replica no longer looks
		case err != nil:
			failures++
			wait = min(l.Interval, firstRetry<<min(failures-1, 10))
			l.Logger.V(1).Info("Looking for what exists failed, trying again", "group", l.Group, "error", err.Error(),
				"duration", wait)
		default:
			failures = 0
		}
		if clock.Sleep(ctx, wait) != nil {
			return nil //nolint:nilerr // the replica no longer looks
		}
	}
}

// Look asks the lister once and publishes what came of it, an error too.
func (l Looker) Look(ctx context.Context, p *writer) error {
	found, failed := l.list(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b, err := p.Read(ctx)
	if err != nil {
		return errors.Join(failed, err)
	}
	if failed == nil {
		err = l.publish(ctx, p, b, found)
	} else {
		err = l.noteFailure(ctx, p, b, failed)
	}
	return errors.Join(failed, err)
}

// publish has the list follow what was found.
func (l Looker) publish(ctx context.Context, p *writer, b before, found []Found) error {
	if b.Broken != nil {
		l.Logger.Error(b.Broken, "The published list is made whole from what is left of it and what is found",
			"group", l.Group)
	}
	entries, leftOut := l.Rules.Next(b.Entries, found, b.Now)
	status := Status{Lister: l.Lister.Kind(), By: l.Instance, At: b.Now, Found: len(found), LeftOut: leftOut}
	changed := differs(b, entries)
	quiet := b.Token == p.Token() && !changed && !status.news(b.Status) && status.By == b.Status.By &&
		status.Lister == b.Status.Lister && status.Found == b.Status.Found &&
		record.Within(b.Status.At, b.Now, noteEvery)
	if quiet {
		return p.Announce(ctx)
	}
	if !changed {
		return p.Note(ctx, b, status, status.news(b.Status))
	}
	if err := p.Publish(ctx, b, entries, status); err != nil {
		return err
	}
	l.Logger.Info("What exists has changed", "group", l.Group, "revision", max(0, b.Revision)+1, "tasks", len(entries),
		"vanished", Vanished(entries))
	return nil
}

// noteFailure lets all replicas know why a look failed. The list stays as it is.
func (l Looker) noteFailure(ctx context.Context, p *writer, b before, failed error) error {
	if b.Broken != nil {
		return b.Broken // there is no list to say it of; the first look that succeeds makes one
	}
	status := b.Status
	status.Lister, status.By, status.Error = l.Lister.Kind(), l.Instance, clip(failed.Error())
	if b.Status.Error == "" {
		status.Since = b.Now
		l.Logger.Error(failed, "Cannot look for what exists: nothing is removed meanwhile", "group", l.Group)
	}
	if status == b.Status && b.Token == p.Token() {
		return p.Announce(ctx)
	}
	return p.Note(ctx, b, status, status.news(b.Status))
}

// list asks the lister, for a limited time.
func (l Looker) list(ctx context.Context) ([]Found, error) {
	limit := max(l.Interval, leastWait)
	asking, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	found, err := l.Lister.List(asking, l.Env)
	if err == nil {
		found, err = Check(found)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Lister.Kind(), err)
	}
	return found, nil
}

// clip cuts an error to what the store takes as a text, and hides the passwords of URIs.
func clip(text string) string {
	text = strings.ToValidUTF8(decode.WithoutPasswords(text), "\uFFFD")
	if len(text) > driver.MaxText {
		text = strings.ToValidUTF8(text[:driver.MaxText], "")
	}
	return text
}
