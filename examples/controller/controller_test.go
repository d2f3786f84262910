package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/shardctl/shardctl/test/testprocess"
)

const (
	objects = 1000
	lease   = 10 * time.Second
)

// TestReplicasShareTheObjects has three processes reconcile a thousand ConfigMaps of a real API server, while some are
// changed all the time. One process is killed: the others have reconciled its objects within the lease and a second.
// One ends in order, and one is left. Each object is reconciled by one at a time.
func TestReplicasShareTheObjects(t *testing.T) {
	c := newCluster(t)
	c.create(t, objects)
	changing, stop := context.WithCancel(t.Context())
	changed := make(chan error, 1)
	go func() { changed <- c.change(changing) }()
	c.start(t, "one")
	c.wait(t, "one has all", time.Time{}, func(last map[string]work) bool { return len(last) == objects })
	c.share(t, objects)

	stood := testprocess.WatchStalls(t)
	owned := c.records.latest(time.Time{})
	killed := time.Now()
	c.end(t, "c", syscall.SIGKILL)
	var lost []string
	for name, w := range owned {
		if w.instance == "c" {
			lost = append(lost, name)
		}
	}
	c.wait(t, "what c had is reconciled", killed, func(last map[string]work) bool {
		for _, name := range lost {
			if w := last[name]; w.end.IsZero() || w.instance == "c" {
				return false
			}
		}
		return true
	})
	took, first := time.Since(killed), time.Since(killed)
	again := c.records.latest(killed)
	for _, name := range lost {
		first = min(first, again[name].begin.Sub(killed))
	}
	t.Logf("figure: %d objects of a killed replica reconciled, the first after %s, all after %s; lease %s, "+
		"the machine stood still for %s", len(lost), first.Round(time.Millisecond), took.Round(time.Millisecond), lease,
		stood().Round(time.Millisecond))
	if took > lease+time.Second+2*stood() { // it may meet the taking over and then the reconciles
		t.Errorf("it took %s", took)
	}

	c.end(t, "b", syscall.SIGTERM)
	ended := time.Now()
	c.wait(t, "a has all", ended, func(last map[string]work) bool {
		for _, w := range c.records.latest(time.Time{}) {
			if w.instance != "a" {
				return false
			}
		}
		return true
	})
	stop()
	if err := <-changed; err != nil {
		t.Error(err)
	}
	c.hashed(t)
	c.end(t, "a", syscall.SIGTERM)
	c.records.judge(t)
}

// TestReplicasShareTheMemory compares the heap that ten thousand ConfigMaps take in each of three processes with what
// they take in one that has all. What a process has with a hundred of them is not counted. Each has a third of the
// names at most, and a queue that was never as long.
func TestReplicasShareTheMemory(t *testing.T) {
	c := newCluster(t)
	few := c.measure(t, objects/10)
	c.newNamespace(t)
	many := c.measure(t, 10*objects)
	one := many["one"].heap - few["one"].heap
	for _, instance := range []string{"one", "a", "b", "c"} {
		percent := 100 * (many[instance].heap - few[instance].heap) / one
		t.Logf("figure: memory of %s with %d objects: %s; with %d: %s; for objects %d %% of what one has that owns all",
			instance, objects/10, few[instance], 10*objects, many[instance], percent)
		if instance != "one" && percent > 35 {
			t.Errorf("%s has %d %% of the memory that the objects take", instance, percent)
		}
	}
}

// measure asks a process that has all objects for its memory, and then three that share them.
func (c *cluster) measure(t *testing.T, objects int) map[string]memory {
	t.Helper()
	c.create(t, objects)
	c.start(t, "one")
	c.wait(t, "one has all", time.Time{}, func(last map[string]work) bool { return len(last) == objects })
	measured := map[string]memory{"one": c.memory(t, "one")}
	c.share(t, objects)
	for _, instance := range []string{"a", "b", "c"} {
		measured[instance] = c.memory(t, instance)
	}
	for _, instance := range []string{"a", "b", "c"} {
		c.end(t, instance, syscall.SIGTERM) // the others take over from it
	}
	return measured
}

// cluster is an API server, and the processes that reconcile its objects.
type cluster struct {
	client    client.Client
	dir       string // with the store and the kubeconfig
	namespace string // of the objects
	records   *records
	processes map[string]*process // that run, by instance
}

// newCluster starts etcd and an API server. They are those of KUBEBUILDER_ASSETS, as for any test with envtest, or of
// the rig that test/e2e/kube runs in. With USE_EXISTING_CLUSTER it is the cluster of KUBECONFIG.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	assets := cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(home, ".cache/cluster/bin"))
	_, err = os.Stat(filepath.Join(assets, "kube-apiserver"))
	if err != nil && os.Getenv("USE_EXISTING_CLUSTER") == "" {
		t.Skipf("no API server: set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver (setup-envtest): %v", err)
	}
	env := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 3 * time.Minute}
	cfg, err := env.Start()
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	made := &cluster{client: c, dir: dir, processes: map[string]*process{}}
	made.newNamespace(t)
	return made
}

// newNamespace begins with no objects and no records.
func (c *cluster) newNamespace(t *testing.T) {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shardctl-controller-"}}
	if err := c.client.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.client.Delete(context.WithoutCancel(t.Context()), n); err != nil {
			t.Error(err)
		}
	})
	c.namespace, c.records = n.Name, &records{open: map[string]int{}}
}

func objectName(i int) string { return fmt.Sprintf("object-%04d", i) }

func (c *cluster) create(t *testing.T, objects int) {
	t.Helper()
	work, ctx := errgroup.WithContext(t.Context())
	work.SetLimit(8)
	for i := range objects {
		work.Go(func() error {
			return c.client.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: objectName(i)},
				Data:       map[string]string{"value": "0", "text": strings.Repeat("x", 1000)},
			})
		})
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
}

// change changes one object after the other until ctx ends.
func (c *cluster) change(ctx context.Context) error {
	random := rand.New(rand.NewPCG(1, 2))
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		name := objectName(random.IntN(objects))
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
		patch := fmt.Sprintf(`{"data":{"value":"%d"}}`, random.Int())
		err := c.client.Patch(ctx, m, client.RawPatch("application/merge-patch+json", []byte(patch)))
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was asked to end
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// process is one of main's.
type process struct {
	*exec.Cmd

	ask    io.Writer
	answer chan memory
	read   chan struct{} // closed once it has ended, and all that it has written is read
}

// memory is what a process has after a collection, in bytes.
type memory struct{ heap, resident int64 }

func (m memory) String() string {
	return fmt.Sprintf("heap %.2f MiB, resident %.1f MiB", float64(m.heap)/(1<<20), float64(m.resident)/(1<<20))
}

// memory asks a process for it.
func (c *cluster) memory(t *testing.T, instance string) memory {
	t.Helper()
	p := c.processes[instance]
	if _, err := fmt.Fprintln(p.ask, "memory"); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-p.answer:
		return m
	case <-p.read:
		t.Fatalf("%s has ended by itself", instance)
	case <-time.After(time.Minute):
		t.Fatalf("%s: no answer within a minute", instance)
	}
	return memory{}
}

// start starts a process of main's.
func (c *cluster) start(t *testing.T, instance string) {
	t.Helper()
	p := exec.CommandContext(t.Context(), os.Args[0], "-kubeconfig", filepath.Join(c.dir, "kubeconfig"),
		"-namespace", c.namespace, "-instance", instance, "-store", "sqlite:"+filepath.Join(c.dir, c.namespace+".db"),
		"-metrics", "0", "-slots", "64", "-lease", lease.String())
	p.Env, p.Stderr = append(os.Environ(), "CONTROLLER_PROCESS=1"), t.Output()
	ask, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill() // it has ended, unless the test failed before
		_ = p.Wait()
	})
	started := &process{p, ask, make(chan memory, 1), make(chan struct{})}
	c.processes[instance] = started
	records := c.records
	go func() {
		defer close(started.read)
		records.read(instance, out, started.answer)
	}()
}

// share has three processes take over from one. None has ever more than its share, for which its maps would stay large.
func (c *cluster) share(t *testing.T, objects int) {
	t.Helper()
	for _, instance := range []string{"a", "b", "c"} {
		c.start(t, instance)
	}
	c.wait(t, "each has a part", time.Time{}, func(last map[string]work) bool {
		n := byInstance(last)
		return min(n["a"], n["b"], n["c"]) > objects/10
	})
	c.end(t, "one", syscall.SIGTERM)
	c.wait(t, "each has a share", time.Time{}, func(last map[string]work) bool {
		n := byInstance(last) // a slot has more or fewer by chance
		return n["a"]+n["b"]+n["c"] == objects && min(n["a"], n["b"], n["c"]) > objects/5-10
	})
}

// end ends a process, and waits until all that it has written is read.
func (c *cluster) end(t *testing.T, instance string, s syscall.Signal) {
	t.Helper()
	p := c.processes[instance]
	delete(c.processes, instance)
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	<-p.read
	if err := p.Wait(); s == syscall.SIGTERM && err != nil {
		t.Errorf("%s: %v", instance, err)
	}
}

// wait waits until what has been reconciled since a moment is as wanted. All processes must go on meanwhile.
func (c *cluster) wait(t *testing.T, what string, since time.Time, holds func(last map[string]work) bool) {
	t.Helper()
	for limit := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		last := c.records.latest(since)
		if holds(last) {
			return
		}
		for instance, p := range c.processes {
			select {
			case <-p.read:
				t.Fatalf("%s: %s has ended by itself; reconciled last: %v", what, instance, byInstance(last))
			default:
			}
		}
		if time.Now().After(limit) {
			t.Fatalf("%s: not within three minutes; reconciled last: %v", what, byInstance(last))
		}
	}
}

// hashed waits until the hash of each object is that of its data.
func (c *cluster) hashed(t *testing.T) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var list corev1.ConfigMapList
		if err := c.client.List(t.Context(), &list, client.InNamespace(c.namespace)); err != nil {
			t.Fatal(err)
		}
		wrong, found := 0, 0
		for i := range list.Items {
			m := &list.Items[i]
			if !strings.HasPrefix(m.Name, "object-") {
				continue
			}
			hash, err := hashOf(m)
			if found++; err != nil || m.Annotations[hashAnnotation] != hash {
				wrong++
			}
		}
		if found == objects && wrong == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("of %d objects %d have another hash", found, wrong)
		}
	}
}
