package lockcommand

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/guard/worker"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Without the lock the exit code says whether others have it, the store was away, or another attempt is of no use. Only
// the first of these is silent.
func TestNotObtained(t *testing.T) {
	const conflict = 9
	away := fmt.Errorf("the table is locked: %w", store.ErrUnavailable)
	late := timeoutError(4 * time.Second)
	wait := func(cause error, behind bool, trouble error) error {
		return fmt.Errorf("lock: %w", &elect.WaitError{Cause: cause, Behind: behind, Store: trouble})
	}
	for name, tt := range map[string]struct {
		err  error
		code int
		says []string // nil: nothing
	}{
		"not waiting":           {mutex.ErrLocked, conflict, nil},
		"waiting for a time":    {wait(late, true, nil), conflict, nil},
		"away":                  {wait(late, false, away), conflict, []string{"not within 4s", "the table is locked"}},
		"not heard of":          {wait(late, false, nil), conflict, []string{"not within 4s", "not answered"}},
		"locked, and then away": {wait(late, true, away), conflict, []string{"not within 4s", "the table is locked"}},
		"not opened in time":    {away, conflict, []string{"the table is locked"}},
		"canceled":              {wait(context.Canceled, true, nil), conflict, []string{"canceled"}},
		"a mutex of a program":  {mutex.ErrLimit, conflict, []string{"in use by a program"}},
		"a full queue":          {mutex.ErrQueueFull, conflict, []string{"try again later"}},
		"a signal":              {signalled(syscall.SIGTERM), 143, nil},
		"the guard is gone":     {worker.ErrLost, CodeLost, []string{"the other process"}},
		"rights, at the start":  {fmt.Errorf("log in: %w", store.ErrInvalid), 78, []string{"log in"}},
		"the layout":            {store.ErrSchema, 78, []string{"another schema"}},
		"another store":         {wait(late, false, driver.Other("a", "b")), 78, []string{"another store", "is b, want a"}},
		"settings, later": {
			fmt.Errorf("lock: %w: %w: a lease of 20s is kept", store.ErrSettings, store.ErrUnavailable), 78,
			[]string{"refuses", "a lease of 20s is kept"},
		},
		"rights, at the last moment": {
			wait(late, false, fmt.Errorf("no right: %w", store.ErrInvalid)), 78, []string{"no right"},
		},
	} {
		out := Request{Key: "k"}.notObtained(tt.err, conflict)
		if out.Code != tt.code || (out.Err != nil) != (tt.says != nil) {
			t.Errorf("%s: %d, %v; want %d", name, out.Code, out.Err, tt.code)
		}
		for _, want := range tt.says {
			if out.Err != nil && !strings.Contains(out.Err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, out.Err, want)
			}
		}
	}
}

// The time of a request is over for a reason that is no answer of the store.
func TestBounded(t *testing.T) {
	for _, r := range []Request{{NoWait: true}, {Timeout: time.Second}, {}} {
		ctx, stop := r.bounded(t.Context())
		if _, limited := ctx.Deadline(); limited != (r.NoWait || r.Timeout > 0) {
			t.Errorf("%+v: limited: %t", r, limited)
		}
		stop()
	}
	ctx, stop := Request{Timeout: time.Nanosecond}.bounded(t.Context())
	defer stop()
	<-ctx.Done()
	if err := context.Cause(ctx); errors.Is(err, mutex.ErrLocked) || err.Error() != "not within 1ns" {
		t.Errorf("cause: %v", err)
	}
}
