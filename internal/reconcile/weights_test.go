package reconcile

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
)

// releasedBy is what a replica releases that owns four keys, as two others do, once the first has grown heavy.
func releasedBy(change func(second *record.Member)) []string {
	v, d := seenBy(4, 4, 4)
	d.Groups[0].Keys[0].Weight, d.Groups[0].WeightRevision = 16, 3
	for i := range v.Sessions {
		v.Sessions[i].Member.WeightRevisions = map[string]int64{"g": 3}
	}
	change(&v.Sessions[1].Member)
	decision, _ := decideFor(v, d, Policy{})
	var said []string
	for _, h := range decision.Release {
		said = append(said, string(h.Reason)+": "+h.Message)
	}
	return said
}

// Weights change while the list stays. As long as a replica with that list plans with others, no held key moves for
// balance: what one gives away, the other would give back.
func TestWeightsCountOnceAllReplicasPlanWithThem(t *testing.T) {
	moved := releasedBy(func(*record.Member) {})
	const want = "Balance: a owned 4 of 12 tasks, its share is 1, by weights that follow what is measured"
	if len(moved) != 3 || !strings.HasPrefix(moved[0], want) {
		t.Errorf("all agree: %q", moved)
	}
	for what, change := range map[string]func(*record.Member){
		"older weights": func(m *record.Member) { m.WeightRevisions = map[string]int64{"g": 2} },
		"newer weights": func(m *record.Member) { m.WeightRevisions = map[string]int64{"g": 4} },
		"none yet":      func(m *record.Member) { m.WeightRevisions = nil },
	} {
		if moved := releasedBy(change); len(moved) != 0 {
			t.Errorf("%s: %q", what, moved)
		}
	}
	other := func(m *record.Member) {
		m.ListHashes, m.ListRevision, m.WeightRevisions = map[string]string{"g": "old"}, 6, nil
	}
	if moved := releasedBy(other); len(moved) == 0 {
		t.Error("a replica with an older list holds up the others")
	}
	client := func(m *record.Member) { m.ListHashes, m.WeightRevisions = nil, nil }
	if moved := releasedBy(client); len(moved) == 0 {
		t.Error("a client holds up the replicas")
	}
}

// Keys without an owner are claimed all the same.
func TestOrphansDoNotWaitForWeights(t *testing.T) {
	v, d := seenBy(1, 1)
	d.Groups[0].WeightRevision = 3 // and the others say none
	const orphan = elect.Key("g/orphan")
	d.Groups[0].Keys = append(d.Groups[0].Keys, DeclaredKey{Key: orphan})
	v.Locks[orphan] = &record.Lock{Key: orphan, Token: 5, Reason: record.ReasonShutdown}
	claimed := false
	for _, me := range []string{"A", "B"} {
		v.Session = me
		decision, _ := decideFor(v, d, Policy{})
		claimed = claimed || slices.Contains(decision.Claim, orphan)
	}
	if !claimed {
		t.Error("an orphan waits")
	}
}
