package elect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/shardctl/shardctl/pkg/store"
)

var errHistory = errors.New("the store follows another course of writes than is known here, after a failover perhaps")

// course is the course of writes that what is known here belongs to, as the store's replies name it. It may be read
// concurrently; only the loop changes it.
type course struct {
	known atomic.Pointer[string]
	// has the loop change the course, when a reply has named another; nil: there is no loop, and nothing is held
	diverged atomic.Pointer[func(from, to string)]
}

func newCourse() *course {
	c := &course{}
	c.known.Store(new(string))
	return c
}

func (c *course) now() string { return *c.known.Load() }

// become changes the course. It reports false when it is not at from any more: the reply was an old one.
func (c *course) become(from, to string) bool {
	known := c.known.Load()
	return *known == from && c.known.CompareAndSwap(known, &to)
}

type courseKey struct{}

// in says that what is asked for under the context is decided on what is known now.
func (c *course) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, courseKey{}, c.now())
}

// of is the course that a call belongs to.
func (c *course) of(ctx context.Context) string {
	if known, ok := ctx.Value(courseKey{}).(string); ok {
		return known
	}
	return c.now()
}

// check fails where a reply belongs to another course than the call. The first reply names the first course: nothing
// was known before.
func (c *course) check(known, shown string) error {
	if known == "" {
		c.become("", shown)
		known = c.now()
	}
	if known == shown {
		return nil
	}
	if diverged := c.diverged.Load(); diverged != nil {
		(*diverged)(known, shown)
	} else {
		c.become(known, shown)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, errHistory)
}

// courseStore is a store whose replies from another course of writes are failures. Those who ask need to know nothing
// of it: they ask again, once all that was known before is forgotten.
type courseStore struct {
	store.Store
	course *course
}

func (s courseStore) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	known := s.course.of(ctx)
	reply, err := s.Store.Read(ctx, kind, ids...)
	if err == nil {
		err = s.course.check(known, reply.History)
	}
	if err != nil {
		reply = store.Reply{}
	}
	return reply, err
}

func (s courseStore) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	known := s.course.of(ctx)
	reply, err := s.Store.List(ctx, kind, q)
	if err == nil {
		err = s.course.check(known, reply.History)
	}
	if err != nil {
		reply = store.Reply{}
	}
	return reply, err
}

func (s courseStore) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	known := s.course.of(ctx)
	if known != "" {
		changes = slices.Clone(changes)
		for i := range changes {
			changes[i].History = known
		}
	}
	outs, err := s.Store.Apply(ctx, changes...)
	for i, out := range outs {
		if out.Status == store.Unknown && out.History == "" {
			continue
		}
		if err := s.course.check(known, out.History); err != nil {
			outs[i] = store.Outcome{Err: err, History: out.History}
		}
	}
	return outs, err
}
