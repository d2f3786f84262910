// Package fencetest is the suite that every fence passes: package fence's own, and those of others.
package fencetest

import (
	"context"
	"errors"
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
