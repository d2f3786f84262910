package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/store/quorum"
)

// configured is a client of a server whose settings may be changed while it runs.
type configured struct {
	*memory.Store

	weak     *atomic.Bool
	looks    *atomic.Int64
	problems []driver.Problem // found when it was opened
}

func (c configured) Problems() []driver.Problem { return c.problems }

func (c configured) Inspect(context.Context) (driver.Inspection, error) {
	c.looks.Add(1)
	value := map[bool]string{false: "on", true: "off"}[c.weak.Load()]
	return driver.Inspection{Settings: []driver.Setting{
		{Name: "fsync", Value: value, Want: "on", Holds: value == "on", Forgets: true},
		{Name: "backups", Value: "none", Want: "some"}, // nothing is forgotten without them
	}}, nil
}

// openConfigured opens a quorum whose second server is as c says.
func openConfigured(t *testing.T, m *memServers, c configured) *quorum.Store {
	t.Helper()
	o := m.options()
	o.Servers[1].Open = func(context.Context) (driver.Store, error) {
		opened := c
		opened.Store = m.client(1) //nolint:contextcheck // it has none
		if c.weak.Load() {
			opened.problems = []driver.Problem{{Reason: "StoreNotDurable", Message: "fsync is off"}}
		}
		return opened, nil
	}
	s, err := quorum.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	if err := after(t, time.Second, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// after lets time pass, and says what is wrong with the quorum then.
func after(t *testing.T, d time.Duration, s *quorum.Store) error {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	return allCount(s)
}

// A server whose settings are changed while it runs stops to count within minutes, and counts again once they are
// mended.
func TestSettingsAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(3)
		c := configured{weak: new(atomic.Bool), looks: new(atomic.Int64)}
		s := openConfigured(t, m, c)
		if err := after(t, time.Hour, s); err != nil {
			t.Fatal(err)
		}
		if n := c.looks.Load(); n < 2 || n > 60 {
			t.Errorf("%d looks in an hour, want some", n)
		}
		c.weak.Store(true)
		for _, text := range []string{"it may forget what it acknowledged", "StoreNotDurable: fsync is off"} {
			if err := after(t, 3*time.Minute, s); err == nil || !strings.Contains(err.Error(), text) {
				t.Fatalf("%v, want one that says %q", err, text)
			}
		}
		m.leave(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if outs, err := s.Apply(ctx, put("g/a", 0, 1, 1)); err != nil || !errors.Is(outs[0].Err, driver.ErrUnavailable) {
			t.Errorf("written with a server that may forget: %+v, %v", outs, err)
		}
		m.back(0)
		c.weak.Store(false)
		if err := after(t, 3*time.Second, s); err != nil {
			t.Error(err)
		}
	})
}

// After calls of a server have failed its settings are looked at soon: it may have been restarted.
func TestSettingsAreLookedAtAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(3)
		c := configured{weak: new(atomic.Bool), looks: new(atomic.Int64)}
		s := openConfigured(t, m, c)
		m.leave(1)
		c.weak.Store(true)
		for i := range int64(100) {
			if out := apply(t, s, put(fmt.Sprint("g/", i), 0, 1, i)); out.Status != driver.Applied {
				t.Fatalf("%+v", out)
			}
		}
		m.back(1)
		if err := after(t, 30*time.Second, s); err == nil ||
			!strings.Contains(err.Error(), "it may forget what it acknowledged") {
			t.Fatalf("%v, want one that says that it may forget", err)
		}
		if n := c.looks.Load(); n > 3 {
			t.Errorf("%d looks after many failures, want few", n)
		}
	})
}
