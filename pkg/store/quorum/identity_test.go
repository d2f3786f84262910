package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/store/quorum"
)

// Only who has reserved a server last can confirm it, and no one reserves one that counts.
func TestAServerIsConfirmedByWhoReservedItLast(t *testing.T) {
	t.Parallel()
	s := memory.New()
	want := func(incarnation string, confirmed bool) {
		t.Helper()
		got, is, err := quorum.ReadIdentity(t.Context(), s)
		if err != nil || got != incarnation || is != confirmed {
			t.Fatalf("incarnation %q, confirmed %t, %v; want %q, %t", got, is, err, incarnation, confirmed)
		}
	}
	does := func(what func(context.Context, driver.Store, string) error, by string, well bool) {
		t.Helper()
		if err := what(t.Context(), s, by); well != (err == nil) {
			t.Fatalf("%v, want success: %t", err, well)
		}
	}
	want("", false)
	does(quorum.Confirm, "first", false)
	does(quorum.Reserve, "first", true)
	want("first", false)
	does(quorum.Reserve, "second", true)
	does(quorum.Confirm, "first", false)
	want("second", false)
	does(quorum.Confirm, "second", true)
	want("second", true)
	does(quorum.Reserve, "third", false)
	want("second", true)
}

// A server whose disk was lost between the reservation and its end is not confirmed.
func TestAReservationEndsWithTheDisk(t *testing.T) {
	t.Parallel()
	m := newMemory(1)
	if err := quorum.Reserve(t.Context(), m.servers[0], "first"); err != nil {
		t.Fatal(err)
	}
	m.wipe(0)
	if err := quorum.Confirm(t.Context(), m.servers[0], "first"); err == nil {
		t.Error("it is confirmed")
	}
	if got, _, err := quorum.ReadIdentity(t.Context(), m.servers[0]); err != nil || got != "" {
		t.Errorf("incarnation %q, %v, want none", got, err)
	}
}

// What is reserved or confirmed in part does not count, and is reserved again.
func TestIdentityThatIsNotWhole(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]func(context.Context, driver.Store) error{
		"reserved": func(ctx context.Context, s driver.Store) error { return quorum.Reserve(ctx, s, "first") },
		"confirmed": func(ctx context.Context, s driver.Store) error {
			return errors.Join(quorum.Reserve(ctx, s, "first"), quorum.Confirm(ctx, s, "first"))
		},
	} {
		whole := 0
		for calls := 1; whole == 0; calls++ {
			s := memory.New()
			made := 0
			s.Fault(func(memory.Call) memory.Verdict {
				if made++; made > calls {
					return memory.Verdict{Fault: memory.LoseRequest}
				}
				return memory.Verdict{}
			})
			if err := steps(t.Context(), s); err == nil {
				whole = calls
			}
			s.Fault(nil)
			_, confirmed, err := quorum.ReadIdentity(t.Context(), s)
			if err != nil || confirmed != (whole > 0 && name == "confirmed") {
				t.Fatalf("%s, cut off after %d calls: confirmed %t, %v", name, calls, confirmed, err)
			}
			if confirmed {
				continue
			}
			err = errors.Join(quorum.Reserve(t.Context(), s, "second"),
				quorum.Confirm(t.Context(), s, "second"))
			if got, is, readErr := quorum.ReadIdentity(t.Context(), s); err != nil || readErr != nil ||
				got != "second" || !is {
				t.Fatalf("%s, cut off after %d calls: %q, %t, %v, %v", name, calls, got, is, err, readErr)
			}
		}
	}
}

// A set-up needs all servers, once. Until then the quorum cannot be opened.
func TestInit(t *testing.T) {
	t.Parallel()
	m := blank(3)
	if s, err := m.quorum(t.Context()); !errors.Is(err, driver.ErrUnavailable) || s != nil {
		t.Fatalf("opened before the set-up: %v, %v", s, err)
	}
	m.leave(2)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if made, err := m.init(ctx); made || !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("set up without a server: %t, %v", made, err)
	}
	m.back(2)
	for _, want := range []bool{true, false} {
		if made, err := m.init(t.Context()); made != want || err != nil {
			t.Fatalf("%t, %v, want %t", made, err, want)
		}
	}
	m.leave(1)
	mustOpen(t, m)
	m.back(1)
	m.wipe(1)
	if _, err := m.init(t.Context()); !errors.Is(err, driver.ErrInvalid) {
		t.Fatalf("a server that lost its disk is set up: %v", err)
	}
}

// Of set-ups at the same time one is made. It goes on where one was cut off.
func TestInitAtOnceAndCutOff(t *testing.T) {
	t.Parallel()
	m := blank(3)
	ended := make(chan error)
	for range 4 {
		go func() {
			_, err := m.init(t.Context())
			ended <- err
		}()
	}
	for range 4 {
		if err := <-ended; err != nil && !errors.Is(err, driver.ErrUnavailable) {
			t.Error(err)
		}
	}
	eventually(t, func() error { _, err := m.init(t.Context()); return err })
	s := mustOpen(t, m)
	eventually(t, func() error { return allCount(s) })

	for writes := 1; ; writes++ { // so many, then it is cut off
		m, made := blank(3), 0
		m.fault = func(c memory.Call) memory.Verdict {
			if c.Op == memory.OpApply {
				if made++; made > writes {
					return memory.Verdict{Fault: memory.LoseRequest}
				}
			}
			return memory.Verdict{}
		}
		_, err := m.init(t.Context())
		m.fault = nil
		if _, err := m.init(t.Context()); err != nil {
			t.Fatalf("after %d writes: %v", writes, err)
		}
		s := mustOpen(t, m)
		eventually(t, func() error { return allCount(s) })
		if err == nil {
			return
		}
	}
}

// All disks are lost, and the quorum is set up again. A process that took part in it before does not take part in this
// one: what it remembers is nowhere.
func TestAProcessBelongsToOneSetUp(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	before := mustOpen(t, m)
	eventually(t, func() error { return allCount(before) })
	if out := apply(t, before, put("g/a", 0, 10, 1)); out.Status != driver.Applied {
		t.Fatal(out)
	}
	eventually(t, func() error { return m.all(t, "g/a") })
	m.wipe(0, 1, 2)
	if _, err := m.init(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := mustOpen(t, m)
	if out := apply(t, after, put("g/b", 0, 11, 2)); out.Status != driver.Applied {
		t.Fatal(out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	outs, err := before.Apply(ctx, put("g/a", 10, 12, 3))
	if err != nil || outs[0].Status != driver.Unknown {
		t.Errorf("%+v, %v: applied on revision 10, which is nowhere", outs, err)
	}
	eventually(t, func() error {
		if len(store.Problems(before)) < 3 {
			return fmt.Errorf("problems: %v", store.Problems(before))
		}
		return nil
	})
}
