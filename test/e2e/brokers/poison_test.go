//go:build linux

package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/brokers/judge"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/suite"
)

// lettersTask subscribes to the dead letters, whose topic has its name.
const lettersTask = "letters"

// poisonTasks: t001 has a topic for dead letters, t002 has none, and t003 has no message that fails.
const poisonTasks = `      - name: t001
        SOURCE
        deliver: {http: {url: RECEIVER}}
        retry: {attempts: 3, backoff: {initial: 50ms, max: 100ms}, deadLetter: {topic: letters}}
      - name: t002
        SOURCE
        deliver: {http: {url: RECEIVER}}
        retry: {attempts: 3, backoff: {initial: 50ms, max: 100ms}}
      - name: t003
        SOURCE
        deliver: {http: {url: RECEIVER}}
      - name: letters
        SOURCE
        deliver: {http: {url: RECEIVER}}
`

var _ = Describe("A message that is refused for ever", func() {
	for _, k := range kinds {
		It(fmt.Sprintf("from %s becomes a dead letter, or its task fails and says where", k.name),
			Label(k.name, "nightly"),
			func(ctx SpecContext) { playPoison(ctx, k) }, SpecTimeout(suite.ScenarioTimeout))
	}
})

func playPoison(ctx context.Context, k kind) {
	GinkgoHelper()
	const count, bad = 10, 4
	k.partitions = min(1, k.partitions)
	r := newRig(ctx, k, plan{title: "poison", topics: 3, extra: []string{lettersTask}, cap: 10},
		strings.ReplaceAll(poisonTasks, "SOURCE", k.source))
	r.receiver.poisoned(0, bad)
	r.receiver.poisoned(1, bad)
	replica, err := r.cluster.StartWith(ctx, "r1", r.configure("r1"))
	Expect(err).NotTo(HaveOccurred())
	for _, key := range []string{"t001", "t002", "t003", lettersTask} {
		r.eventually(ctx, replica, key, HaveField("State", "running"))
	}
	for seq := 1; seq <= count; seq++ {
		for lane, topic := range r.topics {
			Expect(r.publisher.Publish(ctx, k.lane(topic, 0), judge.Body(lane, seq))).To(Succeed())
		}
	}
	of := func(task string) func() []int {
		return func() []int { return r.receiver.of(harness.Group + "/" + task) }
	}

	By("going on after the dead letter")
	Eventually(of("t001")).WithTimeout(patience).Should(Equal([]int{1, 2, 3, 5, 6, 7, 8, 9, 10}))
	Eventually(of(lettersTask)).WithTimeout(patience).Should(Equal([]int{bad}))
	attempts, _ := r.receiver.refusals(0, bad)
	Expect(attempts).To(Equal(3))

	By("failing without a topic for dead letters")
	failed := r.eventually(ctx, replica, "t002", HaveField("State", "failed"))
	attempts, position := r.receiver.refusals(1, bad)
	Expect(failed.LastError).To(ContainSubstring(position))
	Expect(attempts).To(Equal(3))
	Expect(of("t002")()).To(Equal([]int{1, 2, 3}))
	Eventually(of("t003")).WithTimeout(patience).Should(HaveLen(count))

	By("running it again once the receiver has been repaired")
	r.receiver.repaired(1, bad)
	result, err := harness.Command(ctx, suite.Bins.Shardctl, "rerun", harness.Group+"/t002", "--server",
		replica.Client.AdminURL())
	Expect(err).NotTo(HaveOccurred())
	Expect(result.Code).To(BeZero(), result.Stderr)
	Eventually(of("t002")).WithTimeout(patience).Should(Equal([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}))
	Expect(r.receiver.malformed()).To(BeEmpty())
	code, err := replica.Client.Health(ctx, "/livez")
	Expect(err).NotTo(HaveOccurred())
	Expect(code).To(Equal(http.StatusOK))
}

// eventually waits until a replica says of a task what matches.
func (r *rig) eventually(ctx context.Context, replica *harness.Replica, name string, match OmegaMatcher) harness.Task {
	GinkgoHelper()
	var seen harness.Task
	Eventually(func() (harness.Task, error) {
		all, err := replica.Client.Tasks(ctx)
		for _, seen = range all {
			if seen.Key == harness.Group+"/"+name {
				return seen, err
			}
		}
		return harness.Task{}, errors.Join(err, errors.New("no such task yet"))
	}).WithContext(ctx).WithTimeout(patience).Should(match)
	return seen
}
