//go:build linux

package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/e2e/kube"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// A task that eats more than the container's limit: what the kernel and the kubelet then end is theirs to choose. With
// cgroup v1 it is the largest process, and the next largest while there is still too little. That is the worker, and at
// times the guard 20 ms after it. With cgroup v2 the kubelet has it be the whole container.
var _ = Describe("A release whose containers run out of memory", Ordered, ContinueOnFailure, func() {
	const few = 12
	var r *kube.Release

	BeforeAll(func(ctx SpecContext) {
		k := onStage(ctx)
		newNamespace(ctx, k, namespace+"-memory", "privileged")
		r = &kube.Release{
			Kube: k, Name: "eaten", Namespace: namespace + "-memory", Tag: "one",
			StoreURI: testmongo.WithDatabase(stage.uri, "memory"),
			Replicas: 2, Cap: 20, Tasks: few, Records: newRecords(k),
			Extra: map[string]any{"resources": map[string]any{
				"requests": map[string]any{"cpu": "50m", "memory": "64Mi"}, "limits": map[string]any{"memory": "192Mi"},
			}},
		}
		r.Odd = []map[string]any{
			glutton("alone", "--mebibytes", "400"),
			glutton("many", "--children", "60", "--mebibytes", "6"),
		}
		Expect(r.Install(ctx)).To(Succeed())
	}, NodeTimeout(2*ScenarioTimeout))

	AfterEach(func(ctx SpecContext) {
		reportOnFailure(ctx, r)
		if r != nil {
			expectOneRunEach(r)
		}
	}, NodeTimeout(ScenarioTimeout))

	DescribeTable("goes on when", func(ctx SpecContext, what, task string) {
		Eventually(r.CheckRunning).WithContext(ctx).WithArguments(few).WithTimeout(2 * Patience).WithPolling(pollEvery).
			Should(Succeed())
		eater := ownerOf(ctx, r, kube.Group+"/"+task)
		keys := keysOf(r, eater)
		at := history.Now()
		Expect(os.WriteFile(filepath.Join(r.Records, "eat-"+task), nil, 0o600)).To(Succeed())
		var now kube.Pod
		Eventually(func() (bool, error) {
			pods, err := r.Pods(ctx)
			if i := slices.IndexFunc(
				pods, func(p kube.Pod) bool { return p.Metadata.UID == eater.Metadata.UID },
			); i >= 0 {
				now = pods[i]
			}
			return now.Restarts() > eater.Restarts() || taskEnded(ctx, r, task), err
		}).WithTimeout(Patience).WithPolling(pollEvery).Should(BeTrue(), "somebody is out of memory")
		Eventually(r.CheckRunning).WithContext(ctx).WithArguments(few).WithTimeout(2 * Patience).WithPolling(pollEvery).
			Should(Succeed())
		h := recorded(r)
		moved := h.Moves(at, history.Now())
		var last time.Duration
		for _, start := range kube.FirstStarts(h, keys, at) {
			last = max(last, start.Sub(at))
		}
		Figure("out of memory", "%s: %s; %d of the pod's %d tasks started again, the last %v after it began to eat, "+
			"%d moved; gaps %s", what,
			howEnded(eater, now), len(kube.FirstStarts(h, keys, at)), len(keys), last.Round(time.Millisecond),
			len(moved), gapsSince(r, at))
	},
		Entry(
			"one task eats it all", "one task that is larger than everything else", "alone",
			SpecTimeout(ScenarioTimeout),
		),
		Entry(
			"many small processes eat it", "many processes, each smaller than the worker", "many",
			SpecTimeout(ScenarioTimeout),
		),
	)
})

// glutton is a task that eats when its file is there.
func glutton(name string, args ...string) map[string]any {
	command := append([]string{"/glutton", "--when", "/records/eat-" + name}, args...)
	return map[string]any{"name": name, "exec": map[string]any{"command": command}}
}

// ownerOf is the pod that owns a key, by what it says itself.
func ownerOf(ctx SpecContext, r *kube.Release, key string) (owner kube.Pod) {
	GinkgoHelper()
	Eventually(func() error {
		pods, err := r.ReadyPods(ctx)
		if err != nil || len(pods) == 0 {
			return fmt.Errorf("no pod is ready: %w", err)
		}
		all, err := r.Replica(pods[0]).Tasks(ctx)
		if err != nil {
			return err
		}
		for _, t := range all {
			if t.Key == key && t.State == "running" {
				i := slices.IndexFunc(pods, func(p kube.Pod) bool { return p.Metadata.Name == t.Instance })
				if i >= 0 {
					owner = pods[i]
					return nil
				}
			}
		}
		return fmt.Errorf("%s does not run", key)
	}).WithTimeout(2 * Patience).WithPolling(pollEvery).Should(Succeed())
	return owner
}

// taskEnded says whether a task has been restarted or waits to be.
func taskEnded(ctx SpecContext, r *kube.Release, name string) bool {
	pods, err := r.ReadyPods(ctx)
	if err != nil || len(pods) == 0 {
		return false
	}
	all, err := r.Replica(pods[0]).Tasks(ctx)
	if err != nil {
		return false
	}
	for _, t := range all {
		if strings.HasSuffix(t.Key, "/"+name) && (t.State == "backoff" || t.Restarts > 0) {
			return true
		}
	}
	return false
}

// howEnded says what Kubernetes saw of it.
func howEnded(before, after kube.Pod) string {
	if after.Restarts() == before.Restarts() {
		return "the kernel ended the task alone, and the container went on"
	}
	if ended := after.Status.ContainerStatuses[0].LastState.Terminated; ended != nil {
		return fmt.Sprintf("the container was restarted, %s, exit code %d", ended.Reason, ended.ExitCode)
	}
	return "the container was restarted"
}
