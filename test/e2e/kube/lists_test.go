//go:build linux

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/e2e/kube"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

const more = 10 // tasks that a longer list has

func listScenarios() {
	It("takes up a longer list from helm upgrade, and a shorter one from kubectl, without a restart",
		func(ctx SpecContext) {
			r := settled(ctx)
			before := identities(readyPods(ctx, r))
			began := history.Now()
			r.Tasks = tasks + more
			Expect(r.Upgrade(ctx)).To(Succeed())
			upgraded := history.Now()
			Eventually(r.CheckSpread).WithContext(ctx).WithArguments(tasks + more).WithTimeout(3 * Patience).
				WithPolling(pollEvery).Should(Succeed())
			h := recorded(r)
			starts := h.Started(began, history.Now())
			added := namesOf(tasks+1, tasks+more)
			for _, run := range starts {
				Expect(added).To(
					ContainElement(run.Key),
					"only what is new starts; the one that has the list first takes it all, until the others know it",
				)
			}
			first := kube.FirstStarts(h, added, began)
			Expect(identities(readyPods(ctx, r))).To(Equal(before))
			Figure("list by helm upgrade",
				"%d more tasks run %v after the upgrade, when the first kubelet had brought "+
					"the ConfigMap, and are spread after %v; no pod was restarted and no other task moved",
				more, first[more-1].Sub(upgraded).Round(time.Millisecond),
				lastStart(starts).Sub(upgraded).Round(time.Millisecond))

			By("editing the ConfigMap")
			edited := history.Now()
			editConfig(ctx, r, fmt.Sprintf("..%03d}", tasks+more), fmt.Sprintf("..%03d}", tasks))
			r.Tasks = tasks
			Expect(r.Nudge(ctx)).To(Succeed())
			Eventually(r.CheckSpread).WithContext(ctx).WithArguments(tasks).WithTimeout(2 * Patience).
				WithPolling(pollEvery).Should(Succeed())
			Expect(identities(readyPods(ctx, r))).To(Equal(before))
			Figure(
				"list by kubectl edit", "%d tasks fewer: the last ended %v after the edit", more,
				lastEnd(recorded(r), added, edited).Sub(edited).Round(time.Millisecond),
			)

			Expect(r.Upgrade(ctx)).To(Succeed(), "the release says the same as the cluster again")
		}, SpecTimeout(2*ScenarioTimeout))

	It("refuses a broken list, says so, and goes on", func(ctx SpecContext) {
		r := settled(ctx)
		pods := readyPods(ctx, r)
		before, began := identities(pods), history.Now()
		good := editConfig(ctx, r, "tasks:", "taskz:")
		Expect(r.Nudge(ctx)).To(Succeed())
		for _, p := range pods {
			Eventually(func(ctx context.Context) error { return refused(ctx, r, p) }).WithContext(ctx).
				WithTimeout(2 * Patience).WithPolling(pollEvery).Should(Succeed())
		}
		reported := history.Now()
		var events struct {
			Items []struct{ Type, Reason, From, Message string }
		}
		Eventually(func() (int, error) {
			err := r.Get(ctx, fmt.Sprintf(
				"/api/v1/namespaces/%s/pods/%s:8080/proxy/api/v1/events", r.Namespace, pods[0].Metadata.Name,
			), &events)
			n := 0
			for _, e := range events.Items {
				if e.Reason == "ConfigInvalid" && strings.Contains(e.Message, "taskz") {
					n++
				}
			}
			return n, err
		}).WithPolling(pollEvery).Should(Equal(len(pods)), "an event of each")
		Expect(r.CheckSpread(ctx, tasks)).To(Succeed())

		By("repairing it")
		Expect(r.SetConfig(ctx, good)).To(Succeed())
		Expect(r.Nudge(ctx)).To(Succeed())
		for _, p := range pods {
			Eventually(func(ctx context.Context) error { return refused(ctx, r, p) }).WithContext(ctx).
				WithTimeout(2 * Patience).WithPolling(pollEvery).Should(MatchError(errNotRefused))
		}
		Expect(identities(readyPods(ctx, r))).To(Equal(before))
		Expect(recorded(r).Started(began, history.Now())).To(BeEmpty(), "everything went on")
		Figure(
			"broken list", "problem, metric and event of all %d replicas %v after the edit; nothing moved or restarted",
			len(pods), reported.Sub(began).Round(time.Millisecond),
		)
	}, SpecTimeout(2*ScenarioTimeout))
}

// namesOf are the keys of the tasks with these numbers.
func namesOf(first, last int) []string {
	var keys []string
	for i := first; i <= last; i++ {
		keys = append(keys, harness.Key(i))
	}
	return keys
}

// editConfig replaces a text in the configuration, wherever it stands, and returns what it was.
func editConfig(ctx SpecContext, r *kube.Release, from, to string) (was string) {
	GinkgoHelper()
	m, err := r.ConfigMap(ctx)
	Expect(err).NotTo(HaveOccurred())
	was = m.Data[kube.ConfigFile]
	Expect(was).To(ContainSubstring(from))
	Expect(r.SetConfig(ctx, strings.ReplaceAll(was, from, to))).To(Succeed())
	return was
}

var errNotRefused = errors.New("no configuration is refused")

// refused says whether a replica reports, as a problem and in its metrics, that it was given a configuration that it
// did not take.
func refused(ctx context.Context, r *kube.Release, p kube.Pod) error {
	status, err := statusOf(ctx, r, p)
	if err != nil {
		return err
	}
	value, _, err := r.Replica(p).Metric(ctx, "shardctl_config_last_reload_successful", nil)
	if err != nil {
		return err
	}
	problem := slices.ContainsFunc(
		status.ProblemsOf("ConfigInvalid"), func(q harness.Problem) bool { return q.Instance == p.Metadata.Name },
	)
	switch {
	case problem && value == 0:
		return nil
	case !problem && value == 1:
		return errNotRefused
	}
	return fmt.Errorf("%s: problem %t, metric %v", p.Metadata.Name, problem, value)
}
