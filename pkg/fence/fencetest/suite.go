// Package fencetest is the suite that every fence passes: package fence's own, and those of others.
package fencetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/fence"
)

// patience bounds each step of the suite. Servers of tests may be slow.
const patience = time.Minute

// Subject is a fence with work behind it: a log for each key, which is empty at first.
type Subject struct {
	// Write appends an entry to the log of the claim's key, if the claim passes: as one step, or in one transaction. It
	// begins again itself where the database says that it has to. It is called concurrently.
	Write func(ctx context.Context, c fence.Claim, entry string) error
	// Log is the log of a key. The suite reads after it has written, not meanwhile.
	Log func(ctx context.Context, key string) ([]string, error)
	// Fence is the fence for work in Go; nil: there is none, or it passes claims without keeping others from working.
	Fence fence.Fence
	// Reopen is the same data through a fence that is made again; nil: its marks end with it.
	Reopen func() Subject
}

// Run runs the suite. make makes a subject without data for a test, and cleans up with it.
func Run(t *testing.T, newSubject func(t *testing.T) Subject) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s Subject)
	}{
		{"old tokens are refused", refusesOld},
		{"readers and writers", readersAndWriters},
		{"slots and keys do not count for each other", keysAreTheirOwn},
		{"the largest tokens are exact", exactTokens},
		{"malformed claims are refused", refusesMalformed},
		{"decides as Marks does", decidesAsMarks},
		{"marks outlive the fence", marksOutlive},
		{"first claims at the same time", firstClaims},
		{"owners at the same time", together},
		{"readers at the same time", readersTogether},
		{"a newer owner waits for the work of an older one", newerWaits},
		{"failed work leaves the fence usable, and its token seen", failedWork},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newSubject(t)) })
	}
}

// within is the context of one step.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// passes writes and expects the claim to pass.
func (s Subject) passes(t *testing.T, c fence.Claim, entry string) {
	t.Helper()
	if err := s.Write(within(t), c, entry); err != nil {
		t.Fatalf("%s: %v, want it to pass", c, err)
	}
}

// refuses writes and expects the claim to be refused as old.
func (s Subject) refuses(t *testing.T, c fence.Claim, seen string) {
	t.Helper()
	err := s.Write(within(t), c, "refused")
	if !errors.Is(err, fence.ErrOld) {
		t.Fatalf("%s: %v, want ErrOld", c, err)
	}
	if !strings.Contains(err.Error(), c.String()) || !strings.Contains(err.Error(), seen+" has been seen") {
		t.Errorf("%v: the claim and the larger token %s are not in it", err, seen)
	}
}

// holds expects these entries in the log of a key.
func (s Subject) holds(t *testing.T, key string, want ...string) {
	t.Helper()
	got, err := s.Log(within(t), key)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("log of %s: %q, want %q", key, got, want)
	}
}

func refusesOld(t *testing.T, s Subject) {
	t.Helper()
	s.passes(t, fence.Exclusive("k", 7), "a")
	s.passes(t, fence.Exclusive("k", 7), "b")
	s.passes(t, fence.Exclusive("k", 9), "c")
	s.refuses(t, fence.Exclusive("k", 8), "9")
	s.refuses(t, fence.Exclusive("k", 7), "9")
	s.passes(t, fence.Exclusive("k", 9), "d")
	s.holds(t, "k", "a", "b", "c", "d")
}

// With one mark a reader would refuse the one before it, which still reads.
func readersAndWriters(t *testing.T, s Subject) {
	t.Helper()
	s.passes(t, fence.Exclusive("k", 3), "writer 3")
	s.passes(t, fence.Shared("k", 7), "reader 7")
	s.passes(t, fence.Shared("k", 5), "reader 5")
	s.refuses(t, fence.Shared("k", 2), "7")
	s.refuses(t, fence.Exclusive("k", 3), "7")
	s.refuses(t, fence.Exclusive("k", 6), "7")
	s.passes(t, fence.Exclusive("k", 8), "writer 8")
	s.refuses(t, fence.Shared("k", 7), "8")
	s.passes(t, fence.Shared("k", 8), "writer 8 reads")
	s.passes(t, fence.Exclusive("k", 8), "writer 8 again")
	s.passes(t, fence.Shared("k", 9), "reader 9")
	s.refuses(t, fence.Exclusive("k", 8), "9")
	s.holds(t, "k", "writer 3", "reader 7", "reader 5", "writer 8", "writer 8 reads", "writer 8 again", "reader 9")
}

func keysAreTheirOwn(t *testing.T, s Subject) {
	t.Helper()
	long := strings.Repeat("k", fence.MaxKey-1)
	keys := []string{
		"a", "A", "a ", "ä", "a\u0308", "a/b", "a%2Fb", "a'b", `a"b`, "a\\", "$a", "a.b", "{a}", "a\nb", long + "1",
		long + "2",
		fence.Slot("a", 0), fence.Slot("a", 1),
	}
	for i, key := range keys { // each has a smaller token than the one before
		s.passes(t, fence.Exclusive(key, int64(100-i)), "x")
	}
	for i, key := range keys {
		s.refuses(t, fence.Exclusive(key, int64(99-i)), fmt.Sprint(100-i))
		s.holds(t, key, "x")
	}
}

// One that is compared as text has to have its length compared first.
func exactTokens(t *testing.T, s Subject) {
	t.Helper()
	for i, tokens := range [][2]int64{
		{9, 10}, {99, 100}, {1<<31 - 1, 1 << 31}, {fence.MaxToken - 1, fence.MaxToken},
	} {
		key := fmt.Sprint("k", i)
		s.passes(t, fence.Exclusive(key, tokens[0]), "a")
		s.passes(t, fence.Exclusive(key, tokens[1]), "b")
		s.refuses(t, fence.Exclusive(key, tokens[0]), fmt.Sprint(tokens[1]))
		s.refuses(t, fence.Shared(key, tokens[0]), fmt.Sprint(tokens[1]))
		s.holds(t, key, "a", "b")
	}
}

func refusesMalformed(t *testing.T, s Subject) {
	t.Helper()
	// A mark above MaxToken would keep all owners out for ever.
	for _, c := range []fence.Claim{
		fence.Exclusive("k", 0), fence.Exclusive("k", -1), fence.Shared("k", 0), fence.Exclusive("k", math.MinInt64),
		fence.Exclusive("k", fence.MaxToken+1), fence.Shared("k", fence.MaxToken+1),
		fence.Exclusive("k", math.MaxInt64), fence.Shared("k", math.MaxInt64),
		fence.Exclusive("", 1), fence.Exclusive(strings.Repeat("k", fence.MaxKey+1), 1),
		fence.Exclusive("k\x00", 1), fence.Exclusive("k\xff", 1),
	} {
		if err := s.Write(within(t), c, "x"); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("key %.20q, token %d: %v, want ErrInvalid", c.Key, c.Token, err)
		}
	}
	s.holds(t, "k")
	s.passes(t, fence.Exclusive("k", 1), "a")
}

// steps is how many claims a random walk has. It needs to reach each case often, and each is a round trip.
const steps = 150

func decidesAsMarks(t *testing.T, s Subject) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 0)) //nolint:gosec // the same claims in each run
	marks, logs := map[string]fence.Marks{}, map[string][]string{}
	for i := range steps {
		// Tokens rise slowly, so that about half of the claims are old.
		c := fence.Claim{
			Key: []string{"a", "b"}[random.IntN(2)], Token: int64(1 + i/8 + random.IntN(6)),
			Shared: random.IntN(2) == 0,
		}
		after, want := marks[c.Key].Pass(c)
		err := s.Write(within(t), c, fmt.Sprint(i))
		if errors.Is(err, fence.ErrOld) != (want != nil) || want == nil && err != nil {
			t.Fatalf("step %d: %s with %+v: %v, want %v", i, c, marks[c.Key], err, want)
		}
		if want == nil {
			marks[c.Key], logs[c.Key] = after, append(logs[c.Key], fmt.Sprint(i))
		}
	}
	for key, want := range logs {
		s.holds(t, key, want...)
	}
}

func marksOutlive(t *testing.T, s Subject) {
	t.Helper()
	if s.Reopen == nil {
		t.Skip("its marks are in the memory of the process")
	}
	s.passes(t, fence.Exclusive("k", 7), "a")
	s.passes(t, fence.Shared("k", 9), "b")
	again := s.Reopen()
	again.refuses(t, fence.Exclusive("k", 8), "9")
	again.refuses(t, fence.Shared("k", 6), "9")
	again.passes(t, fence.Shared("k", 8), "c")
	again.holds(t, "k", "a", "b", "c")
}
