package subscribetest

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fault is a way to be wrong, and the checks that see it.
type fault struct {
	name   string
	checks string // names, in one text
	single bool   // of a source that acknowledges each message by itself
	with   func(topic Topic) Topic
}

func allFaults() []fault {
	return slices.Concat(faultsOfMessages(), faultsOfReceive(), faultsOfAck(), faultsOfOrder(), faultsOfLetters(),
		faultsOfCalls(), faultsOfStore())
}

// TestFaults shows that the suite sees what is wrong with a source.
func TestFaults(t *testing.T) {
	for _, f := range allFaults() {
		t.Run(f.name, func(t *testing.T) {
			for name := range strings.FieldsSeq(f.checks) {
				t.Run(name, func(t *testing.T) { f.expectRed(t, name) })
			}
		})
	}
}

// tries are how often a fault may stay unseen: with some, what comes first of two goroutines decides.
const tries = 20

func (f fault) expectRed(t *testing.T, name string) {
	t.Helper()
	for range tries {
		red := false
		synctest.Test(t, func(t *testing.T) {
			r := record(t, find(t, name), f.with(memTopic(f.single)(t)))
			if r.skipped != "" {
				t.Fatal("skipped:", r.skipped)
			}
			if red = len(r.failed) > 0; red {
				t.Log("the check says:", r.failed[0])
			}
			time.Sleep(2 * time.Hour) // of the bubble's clock: calls that hang end
		})
		if red {
			return
		}
	}
	t.Fatalf("the check passes %d times", tries)
}

func find(t *testing.T, name string) check {
	t.Helper()
	for _, c := range checks() {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("there is no check %s", name)
	return check{}
}

// TestEachCheckCanFail shows that no check passes whatever the source does.
func TestEachCheckCanFail(t *testing.T) {
	var seen []string
	for _, f := range allFaults() {
		seen = append(seen, strings.Fields(f.checks)...)
	}
	for _, c := range checks() {
		if !slices.Contains(seen, c.name) {
			t.Errorf("no fault turns the check %s red", c.name)
		}
	}
}
