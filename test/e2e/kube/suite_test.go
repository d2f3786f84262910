//go:build linux

package kube_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/e2e/kube"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) {
	code := testprocess.Main(m)
	for _, undo := range stage.undo {
		undo()
	}
	os.Exit(code)
}

func TestScenarios(t *testing.T) {
	suites.Need(t, suites.Cluster, "a Kubernetes cluster")
	env, err := kube.ReadEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	stage.env = env
	Run(t, suites.Cluster, "shardctl, on Kubernetes")
}

const (
	namespace = "shardctl-scenarios"
	tasks     = 100
	replicas  = 5
	limit     = 30 // the cap
)

// stage is the cluster and the database, there from the first scenario to the last.
var stage struct {
	env  kube.Environment
	once sync.Once
	err  error
	kube *kube.Kube
	uri  string
	undo []func()
}

// onStage connects to the cluster, puts the images on its nodes and starts a database, once.
func onStage(ctx context.Context) *kube.Kube {
	GinkgoHelper()
	stage.once.Do(func() { stage.err = setStage(ctx) })
	Expect(stage.err).NotTo(HaveOccurred())
	return stage.kube
}

func setStage(ctx context.Context) error {
	env := stage.env
	k, stop, err := kube.Connect(ctx, env)
	if err != nil {
		return err
	}
	stage.kube, stage.undo = k, append(stage.undo, stop)
	archives, err := filepath.Glob(filepath.Join(env.Images, "*.tar"))
	if err != nil || len(archives) == 0 {
		return fmt.Errorf("no archive in KUBE_IMAGES=%s; images.sh makes them", env.Images)
	}
	for _, archive := range archives {
		if err := k.LoadImage(ctx, archive); err != nil {
			return err
		}
	}
	stage.uri = env.MongoDB
	if stage.uri == "" {
		set, err := testmongo.Start(ctx, testmongo.Options{Host: env.HostAddress})
		if err != nil {
			return err
		}
		stage.undo = append(stage.undo, set.Close)
		stage.uri = set.URI()
	}
	return nil
}

// newNamespace makes a namespace that is gone again after the container or scenario that called it.
func newNamespace(ctx SpecContext, k *kube.Kube, name, podSecurity string) {
	GinkgoHelper()
	// of a run that was cut off
	_, err := k.Run(ctx, "delete", "namespace", name, "--ignore-not-found", "--timeout=120s")
	Expect(err).NotTo(HaveOccurred())
	Expect(k.Apply(ctx, map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{
			"name": name, "labels": map[string]string{"pod-security.kubernetes.io/enforce": podSecurity},
		},
	})).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		_, err := k.Run(ctx, "delete", "namespace", name, "--wait=false")
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(ScenarioTimeout))
}

// newRecords makes a directory that tasks of any node and user can write to.
func newRecords(k *kube.Kube) string {
	GinkgoHelper()
	dir, err := os.MkdirTemp(k.Records, "records-")
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Chmod(dir, 0o777)).To(Succeed())
	DeferCleanup(func() {
		if !CurrentSpecReport().Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	return dir
}

// hundred is the release that most scenarios share, and spoilt says that a scenario failed and left it as it was then.
var (
	hundred *kube.Release
	spoilt  bool
)

// newHundred describes the release of the issue: a hundred tasks, five replicas, a cap of thirty.
func newHundred(k *kube.Kube) *kube.Release {
	return &kube.Release{
		Kube: k, Name: "shardctl", Namespace: namespace, Tag: "one",
		StoreURI: testmongo.WithDatabase(stage.uri, "scenarios"),
		Replicas: replicas, Cap: limit, Tasks: tasks, Records: newRecords(k),
	}
}

// settled brings the shared release to where every scenario begins: installed, and a hundred tasks spread over five
// pods.
func settled(ctx SpecContext) *kube.Release {
	GinkgoHelper()
	r := hundred
	listed, err := r.Helm(ctx, "list", "--all", "--short")
	Expect(err).NotTo(HaveOccurred())
	switch {
	case listed == "":
		Expect(r.Install(ctx)).To(Succeed())
	case spoilt:
		r.Tag, r.Replicas, r.Tasks, r.Settle, r.Extra = "one", replicas, tasks, "", nil
		Expect(r.Upgrade(ctx, "--wait", "--timeout", rolloutTimeout)).To(Succeed())
		_, err := r.Kubectl(ctx, "scale", "deployment", r.Name, "--replicas="+strconv.Itoa(replicas))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Nudge(ctx)).To(Succeed())
	}
	spoilt = false
	awaitCalm(ctx, r)
	return r
}

// calm is how long nothing must have started for moves to be over.
const calm = 2 * time.Second

// awaitCalm waits until the tasks are spread over the release's pods, and no more of them move.
func awaitCalm(ctx SpecContext, r *kube.Release) {
	GinkgoHelper()
	Eventually(func() error {
		if err := r.CheckSpread(ctx, r.Tasks); err != nil {
			return err
		}
		h, err := r.History()
		if err != nil {
			return err
		}
		if moved := h.Started(history.Now().Add(-calm), history.Now()); len(moved) > 0 {
			return fmt.Errorf("%d tasks started within the last %v", len(moved), calm)
		}
		return nil
	}).WithTimeout(2 * Patience).WithPolling(pollEvery).Should(Succeed())
}

// expectNothingMoved holds that from then on, and for some seconds more, no task starts, and that all run.
func expectNothingMoved(ctx SpecContext, r *kube.Release, began history.Instant) {
	GinkgoHelper()
	Consistently(func() []history.Run { return recorded(r).Started(began, history.Now()) }).
		WithTimeout(3*time.Second).WithPolling(pollEvery).Should(BeEmpty(), "nothing moved")
	Eventually(r.CheckRunning).WithContext(ctx).WithArguments(tasks).WithPolling(pollEvery).Should(Succeed())
}

// reportOnFailure shows how the release does when the scenario that ends now has failed.
func reportOnFailure(ctx SpecContext, r *kube.Release) {
	if r == nil || !CurrentSpecReport().Failed() {
		return
	}
	for name, args := range map[string][]string{
		"pods":   {"get", "pods", "-o", "wide"},
		"events": {"get", "events", "--sort-by=.lastTimestamp"},
		"logs": {
			"logs", "--selector=app.kubernetes.io/name=shardctl", "--tail=12", "--prefix", "--max-log-requests=20",
		},
	} {
		out, err := r.Kubectl(ctx, args...)
		if err != nil {
			out += err.Error()
		}
		AddReportEntry(name, out, ReportEntryVisibilityFailureOrVerbose)
	}
}

// expectOneRunEach holds the whole history to what must be so at any time.
func expectOneRunEach(r *kube.Release) {
	GinkgoHelper()
	ExpectRecord(recorded(r), r.Cap)
}

func recorded(r *kube.Release) *history.History {
	GinkgoHelper()
	h, err := r.History()
	Expect(err).NotTo(HaveOccurred())
	return h
}

func readyPods(ctx SpecContext, r *kube.Release) []kube.Pod {
	GinkgoHelper()
	pods, err := r.ReadyPods(ctx)
	Expect(err).NotTo(HaveOccurred())
	return pods
}

func keysOf(r *kube.Release, pods ...kube.Pod) []string {
	GinkgoHelper()
	keys, err := r.KeysOf(pods...)
	Expect(err).NotTo(HaveOccurred())
	Expect(keys).NotTo(BeEmpty())
	return keys
}

// statusOf asks a pod itself.
func statusOf(ctx context.Context, r *kube.Release, p kube.Pod) (harness.Status, error) {
	return r.Replica(p).Status(ctx)
}
