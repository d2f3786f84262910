//go:build linux

package suite

import (
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// lostAfter is how long a key may be without a run while a replica lives that no one disturbs. It is far above what is
// promised, and below Patience: a scenario that waits for a lost key in vain gives up only then.
const lostAfter = Patience * 3 / 4

// terms are what the record of a cluster is held to.
type terms struct {
	allowed    []func(history.Overlap) bool // which a scenario causes by intent
	limits     []limit
	everywhere int      // the cap of each instance; 0: none
	always     []string // keys that one undisturbed replica must be enough for
}

// limit is how many keys an instance may run at once.
type limit struct {
	instance string
	keys     int
}

// span is a time in which a replica lived and no one had disturbed it.
type span struct{ from, to history.Instant }

// agreed are the terms of the clusters of this process.
var agreed = struct {
	sync.Mutex
	of map[*harness.Cluster]*terms
}{of: map[*harness.Cluster]*terms{}}

// agree changes the terms of a cluster.
func agree(c *harness.Cluster, change func(t *terms)) {
	agreed.Lock()
	defer agreed.Unlock()
	if agreed.of[c] == nil {
		agreed.of[c] = &terms{everywhere: c.Cap}
	}
	change(agreed.of[c])
}

// AllowOverlap declares that runs of a key overlap by intent, and which. Tokens must rise all the same. Declare it
// before it can happen: what is found is judged at the end of the cluster, however the scenario ended.
func AllowOverlap(c *harness.Cluster, reason string, covers func(history.Overlap) bool) {
	AddReportEntry("overlaps are allowed", reason, ReportEntryVisibilityFailureOrVerbose)
	agree(c, func(t *terms) { t.allowed = append(t.allowed, covers) })
}

// AtMost declares that these instances never run more keys at once. Options.Cap holds for all instances without it.
func AtMost(c *harness.Cluster, keys int, instances ...string) {
	agree(c, func(t *terms) {
		for _, instance := range instances {
			t.limits = append(t.limits, limit{instance, keys})
		}
	})
}

// NothingLost declares that all keys of a cluster run, but for pauses of up to 45 s, as long as a replica lives that
// no one disturbs. So the store may not be away for longer, and the caps must suffice for all keys.
func NothingLost(c *harness.Cluster) {
	agree(c, func(t *terms) { t.always = c.Keys() })
}

// Words for what must not be on any machine.
const (
	TwoRuns    = "two runs of one key were alive at once"
	TokensFell = "tokens must strictly increase"
	Lost       = "messages were lost or out of order"
)

// ExpectSafe wants nothing to have been found that must not be on any machine.
func ExpectSafe(found []string, what string) {
	GinkgoHelper()
	for i, line := range found {
		found[i] = fmt.Sprintf("%.400s", line)
	}
	Expect(found).To(BeEmpty(), what)
}

// ExpectOneRunEach holds the whole record so far to what must be so at any time. There are never two runs of a key at
// once, tokens strictly increase, and no instance runs more than it may. NewCluster has it judged at the end.
func ExpectOneRunEach(c *harness.Cluster) {
	GinkgoHelper()
	var lives []span
	for _, r := range c.All() {
		from, to := r.Sound()
		lives = append(lives, span{from, to})
	}
	h, now := Load(c), history.Now()
	var found []string
	agree(c, func(t *terms) {
		found = t.judge(h, now, lives, func(from, to history.Instant) time.Duration { return Stall(c, from, to) })
	})
	if len(found) > 0 {
		AddReportEntry("logs", c.Logs(30), ReportEntryVisibilityFailureOrVerbose)
	}
	ExpectSafe(found, "what ran")
}

// ExpectRecord holds the record of tasks that no cluster of NewCluster ran to the same; limit is the cap of each
// instance.
func ExpectRecord(h *history.History, limit int) {
	GinkgoHelper()
	t := terms{everywhere: limit}
	ExpectSafe(t.judge(h, history.Now(), nil, nil), "what ran")
}

// hadCapacity says whether the replicas that lived all the time had capacity for all keys.
func (t *terms) hadCapacity(lives []span, from, to history.Instant) bool {
	all := 0
	for _, live := range lives {
		if live.from <= from && to <= live.to {
			all++
		}
	}
	return t.everywhere == 0 || all*t.everywhere >= len(t.always)
}

// judge is all that is wrong with a record, in a line each.
func (t *terms) judge(
	h *history.History, now history.Instant, lives []span, stall func(from, to history.Instant) time.Duration,
) (found []string) {
	for _, o := range h.Overlaps() {
		if !slices.ContainsFunc(t.allowed, func(covers func(history.Overlap) bool) bool { return covers(o) }) {
			found = append(found, fmt.Sprintf("%s: %v", TwoRuns, o))
		}
	}
	for _, f := range h.TokenFaults() {
		found = append(found, fmt.Sprintf("%s: %v", TokensFell, f))
	}
	for instance, most := range h.MostAtOnce() {
		for _, l := range append([]limit{{instance, t.everywhere}}, t.limits...) {
			if l.instance == instance && l.keys > 0 && most.Keys > l.keys {
				found = append(found, fmt.Sprintf("%s ran %d keys at once, of at most %d", instance, most.Keys, l.keys))
			}
		}
	}
	for _, key := range t.always {
		for _, hole := range h.Holes(key, now) {
			for _, live := range lives {
				from, to := max(hole.From, live.from), min(hole.To, live.to)
				if length := to.Sub(from); t.hadCapacity(lives, from, to) && length > lostAfter &&
					length > lostAfter+stall(from, to) {
					found = append(found, fmt.Sprintf("%s did not run for %v while a replica lived", key, length))
				}
			}
		}
	}
	return found
}

// What is promised of keys that move, in docs/protocol.md. P4 is T and AfterLease after a death.
const (
	AfterLease = time.Second
	WorkerDied = time.Second            // P11
	HandedOver = 500 * time.Millisecond // P4: after the moment at which the task has stopped
	onePeriod  = 20 * time.Millisecond  // how exactly records have that moment
)

// stalls are those of this process, and disk is that of all stores.
var (
	stalls history.Watch
	disk   history.Disk
)

// OwnStall returns the longest time for which the machine held this process up, at a time that touches [from, to].
func OwnStall(from, to history.Instant) time.Duration { return stalls.Longest(from, to) }

// Stall is how long the machine stood still at a time that touches [from, to], as this process and the tasks of a
// cluster saw it, and how long its disk did. Tasks that the scenario itself has stopped then count too.
func Stall(c *harness.Cluster, from, to history.Instant) time.Duration {
	GinkgoHelper()
	tasks, err := c.Stall(from, to)
	Expect(err).NotTo(HaveOccurred())
	return max(tasks, stalls.Longest(from, to)) + disk.Stood(from, to)
}

// ExpectWithin wants a time to be no longer than what is promised, beside what the machine itself stood still.
func ExpectWithin(c *harness.Cluster, promise time.Duration, from, to history.Instant, what string) {
	GinkgoHelper()
	if to.Sub(from) <= promise {
		return
	}
	stall := Stall(c, from, to)
	Expect(to.Sub(from)).To(
		BeNumerically("<=", promise+stall), "%s: %v is promised, and the machine stood still for %v", what, promise,
		stall,
	)
}

// ExpectHandedOver wants every key that an instance ran to have started elsewhere in time after it was stopped, since
// the instance was asked to leave.
func ExpectHandedOver(c *harness.Cluster, instance string, since history.Instant) {
	GinkgoHelper()
	for _, gap := range Load(c).Gaps(since, history.Now()) {
		if gap.Old.Instance == instance {
			ExpectWithin(c, HandedOver+onePeriod, gap.Old.End, gap.New.Start, gap.New.Key+" after it was stopped")
		}
	}
}
