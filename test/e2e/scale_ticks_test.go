//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// tick is one run of a schedule, as it reported itself.
type tick struct {
	task, instance string
	at             time.Time
	token          int64
}

const everySecond = `
version: 1
cluster: e2e
instance: %s
store: {uri: %q}
lease: {duration: %s}
rebalance: {settle: %s}
server: {listen: %q, advertise: %q}
admin: {listen: %q}
log: {level: debug}
groups:
  - name: g
    defaults:
      every: 1s
      exec: {command: [sh, -c, 'echo "$SHARDCTL_TASK $SHARDCTL_INSTANCE $SHARDCTL_SCHEDULED_AT $SHARDCTL_FENCING_TOKEN" >> %s']}
    tasks:
      - name: tick-{1..6}
`

var _ = Describe("Schedules where one of three wall clocks is wrong", Label("faults-scale", Nightly), func() {
	EachStore("They", func(store string, uri func() string) {
		It("follow the clock of the replica that owns them, and no tick fires twice", func(ctx SpecContext) {
			at, file := uri(), filepath.Join(Work, "ticks-"+store)
			c := NewCluster("ticks-"+store, harness.Options{})
			clock := harness.NewWallClock(filepath.Join(Work, "ticks-clock-"+store))
			Expect(clock.Set(2 * time.Hour)).To(Succeed())
			// The wrong one comes last: a task that it has fired two hours ahead is silent for that long elsewhere.
			for _, name := range []string{"right-a", "right-b", "wrong"} {
				v := harness.Variant{Program: laterProgram(ctx), Configure: func(server, admin string) (string, error) {
					return fmt.Sprintf(everySecond, name, at, Lease, Settle, server, server, admin, file), nil
				}}
				if name == "wrong" {
					v.Env = []string{clock.Env()}
				}
				start(ctx, c, name, v)
			}
			eventuallyTicked(ctx, file, 6, func(tick) bool { return true })
			right, wrong := c.Live()[0], c.Live()[2]

			By("one replica being two hours ahead")
			eventuallyTicked(
				ctx, file, 2, func(t tick) bool { return t.instance == wrong.Name && time.Until(t.at) > time.Hour },
			)
			eventuallyTicked(
				ctx, file, 4, func(t tick) bool { return t.instance != wrong.Name && time.Until(t.at) < time.Minute },
			)
			for _, t := range ticks(file) {
				ahead := time.Until(t.at) > time.Hour
				Expect(ahead).To(Equal(t.instance == wrong.Name), "by the clock of its owner alone: %v", t)
			}

			By("its clock jumping by two hours every second")
			jumped := len(ticks(file))
			for i := range 6 {
				began := time.Now()
				Expect(clock.Set(time.Hour * time.Duration(2*(i%2)))).To(Succeed())
				Eventually(func() time.Duration { return time.Since(began) }).Should(BeNumerically(">=", time.Second))
			}
			Expect(clock.Set(2 * time.Hour)).To(Succeed())

			By("its owner dying: what it fired ahead stays fired")
			keys := ownedAsSeenBy(ctx, right, wrong.Name)
			Expect(keys).To(HaveLen(2))
			_, err := wrong.Kill(harness.Both, syscall.SIGKILL)
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() []string { return ownedAsSeenBy(ctx, right, wrong.Name) }).WithContext(ctx).Should(BeEmpty())
			before := len(ticks(file))
			Eventually(func() int { return len(ticks(file)) }).WithContext(ctx).Should(
				BeNumerically(">=", before+8), "the others' go on",
			)
			all := ticks(file)
			expectOnceEach(all)
			late := 0
			for _, t := range all[before:] {
				if time.Until(t.at) < time.Hour && strings.Contains(strings.Join(keys, " "), t.task) {
					late++
				}
			}
			Figure(store, "schedules every second, one of three clocks two hours ahead and jumping (%d ticks "+
				"meanwhile): %d ticks of 6 tasks, none twice; after its death its 2 tasks fired %d ticks: they wait "+
				"until the right clock has passed what was fired",
				before-jumped, len(all), late)
			Expect(late).To(BeZero(), "a tick at or below the last one fired is never fired again")
		}, SpecTimeout(ScenarioTimeout))
	})
})

// eventuallyTicked waits until n tasks have fired a tick of this kind.
func eventuallyTicked(ctx context.Context, file string, n int, kind func(tick) bool) {
	GinkgoHelper()
	Eventually(func() int {
		tasks := map[string]bool{}
		for _, t := range ticks(file) {
			if kind(t) {
				tasks[t.task] = true
			}
		}
		return len(tasks)
	}).WithContext(ctx).Should(BeNumerically(">=", n))
}

// expectOnceEach holds that each task's ticks rise, and the tokens with them.
func expectOnceEach(all []tick) {
	GinkgoHelper()
	last := map[string]tick{}
	for _, t := range all {
		if before, ok := last[t.task]; ok {
			Expect(t.at).To(BeTemporally(">", before.at), "%s fired a tick again: %v after %v", t.task, t, before)
			Expect(t.token).To(BeNumerically(">", before.token), "%v after %v", t, before)
		}
		last[t.task] = t
	}
}

// ownedAsSeenBy are the tasks that an instance owns in the eyes of another.
func ownedAsSeenBy(ctx context.Context, asked *harness.Replica, instance string) []string {
	GinkgoHelper()
	tasks, err := asked.Client.Tasks(ctx)
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, t := range tasks {
		if t.Instance == instance {
			names = append(names, strings.TrimPrefix(t.Key, "g/"))
		}
	}
	return names
}

// ticks are all that fired so far, in order.
func ticks(file string) []tick {
	GinkgoHelper()
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	var all []tick
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			continue // cut off in the middle
		}
		at, err := time.Parse(time.RFC3339, f[2])
		Expect(err).NotTo(HaveOccurred(), line)
		token, err := strconv.ParseInt(f[3], 10, 64)
		Expect(err).NotTo(HaveOccurred(), line)
		all = append(all, tick{f[0], f[1], at, token})
	}
	return all
}
