package redis_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// patience is how long tests wait for what must come.
const patience = 30 * time.Second

// client talks to one server directly.
func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func do(t *testing.T, addr string, args ...any) {
	t.Helper()
	if err := client(t, addr).Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

var seq atomic.Int64

// lock is a creation of a lock at this revision; with a lease it is a claim.
func lock(id string, rev int64, lease time.Duration) driver.Change {
	return driver.Change{Claim: lease, Doc: driver.Doc{
		Kind: driver.KindLock, ID: id, Group: "g", Rev: rev, Session: "s",
		WriterID: driver.WriterID{Session: "w", Seq: seq.Add(1)},
	}}
}

func apply(t *testing.T, s driver.Store, c driver.Change) driver.Outcome {
	t.Helper()
	outs, err := s.Apply(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return outs[0]
}

// must repeats a change, as callers do, until its outcome is known.
func must(t *testing.T, s driver.Store, c driver.Change, want driver.Status) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		out := apply(t, s, c)
		if out.Status != driver.Unknown || ctx.Err() != nil {
			if out.Status != want {
				t.Fatalf("%s: %+v, want status %d", c.Doc.ID, out, want)
			}
			return
		}
		if !errors.Is(out.Err, driver.ErrUnavailable) {
			t.Fatalf("%s: unknown, %v", c.Doc.ID, out.Err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// claim takes an absent lock, with newer tokens until one is taken, and returns that.
func claim(t *testing.T, s driver.Store, id string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		c := lock(id, floor(t, s).Floor+1, lease)
		if out := apply(t, s, c); out.Status == driver.Applied {
			return c.Doc.Rev
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s cannot be claimed", id)
	return 0
}

// floor reads until the store answers.
func floor(t *testing.T, s driver.Store) driver.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		res, err := s.Read(t.Context(), driver.KindLock, "none")
		if err == nil {
			return res
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// waitFor waits until something holds.
func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not hold in time")
		}
	}
}

// info is what a server says of itself; nothing while it does not answer.
func info(t *testing.T, addr string) map[string]string {
	t.Helper()
	text, err := client(t, addr).Info(t.Context()).Result()
	if err != nil {
		return nil
	}
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		all[name] = value
	}
	return all
}
