package calllist_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/discover"
	"github.com/shardctl/shardctl/pkg/tasks/discover/calllist"
)

func TestFunctionsAreCalled(t *testing.T) {
	var f discover.Functions
	register := func(name string, list discover.Function) {
		if err := f.Register(name, list); err != nil {
			t.Fatal(err)
		}
	}
	register("good", func(context.Context) ([]discover.Found, error) { return []discover.Found{{Name: "a"}}, nil })
	register("fails", func(context.Context) ([]discover.Found, error) { return nil, errors.New("no database") })
	register("panics", func(context.Context) ([]discover.Found, error) { panic("oh") })
	register("exits", func(context.Context) ([]discover.Found, error) { runtime.Goexit(); return nil, nil })
	none := func(context.Context) ([]discover.Found, error) { return nil, nil }
	for name, list := range map[string]discover.Function{"": none, "good": none, "nil": nil} {
		if f.Register(name, list) == nil {
			t.Errorf("%q was registered", name)
		}
	}
	env := discover.Env{Functions: &f}
	if found, err := calllist.New("good").List(t.Context(), env); err != nil || found[0].Name != "a" {
		t.Errorf("%v, %v", found, err)
	}
	for name, want := range map[string]string{
		"fails": `callback "fails": no database`, "panics": `callback "panics": panicked: oh`,
		"exits": "runtime.Goexit", "nobody": `callback "nobody" is not registered`,
	} {
		l := calllist.New(name)
		for range 2 {
			if _, err := l.List(t.Context(), env); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	if _, err := calllist.New("good").List(t.Context(), discover.Env{}); err == nil {
		t.Error("called without any functions")
	}
}

// A function that does not return is left alone, and is not called again before it has.
func TestAFunctionThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f discover.Functions
		hold, calls := make(chan struct{}), 0
		_ = f.Register("hangs", func(context.Context) ([]discover.Found, error) { calls++; <-hold; return nil, nil })
		l, env := calllist.New("hangs"), discover.Env{Functions: &f}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("no answer within 1s"))
		defer cancel()
		if _, err := l.List(ctx, env); err == nil || !strings.Contains(err.Error(), "no answer within 1s") {
			t.Errorf("%v", err)
		}
		if _, err := l.List(t.Context(), env); err == nil || !strings.Contains(err.Error(), "has not returned since") {
			t.Errorf("%v", err)
		}
		close(hold)
		synctest.Wait()
		if _, err := l.List(t.Context(), env); err != nil || calls != 2 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}
