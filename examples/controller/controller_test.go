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

	"github.com/shardctl/shardctl/internal/testprocess"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	objects = 1000
	lease   = 10 * time.Second
)

// TestReplicasShareTheObjects has three processes reconcile a thousand ConfigMaps of a real API server, while some are
// changed all the time. One process is killed: the others have reconciled its objects within the lease and a second.
// One ends in order, and one is left. Each object is reconciled by one at a time. The memory of each is printed, beside
// that of one that owns all.
func TestReplicasShareTheObjects(t *testing.T) {
	c := newCluster(t)
	empty := c.emptyMemory(t)
	c.create(t, objects)
	changing, stop := context.WithCancel(t.Context())
	changed := make(chan error, 1)
	go func() { changed <- c.change(changing) }()
	one := c.start(t, "one")
	c.wait(t, "one has all", time.Time{}, func(last map[string]work) bool { return len(last) == objects })
	alone := one.memory(t)
	c.end(t, one, "one", syscall.SIGTERM)
	processes := map[string]*process{}
	for _, instance := range []string{"a", "b", "c"} {
		processes[instance] = c.start(t, instance)
	}
	c.wait(t, "each has a share", time.Now(), func(last map[string]work) bool {
		n := map[string]int{}
		for _, w := range last {
			n[w.instance]++
		}
		return len(last) == objects && n["a"] > objects/5 && n["b"] > objects/5 && n["c"] > objects/5
	})
	t.Logf("figure: memory without objects: %s; of one that owns all: %s", empty, alone)
	for _, instance := range []string{"a", "b", "c"} {
		m := processes[instance].memory(t)
		t.Logf("figure: memory of %s, one of three: %s; for objects %d %% of the heap that they take where one owns all",
			instance, m, 100*(m.heap-empty.heap)/max(1, alone.heap-empty.heap))
	}

	stood := testprocess.WatchStalls(t)
	owned := c.records.latest(time.Time{})
	killed := time.Now()
	c.end(t, processes["c"], "c", syscall.SIGKILL)
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

	c.end(t, processes["b"], "b", syscall.SIGTERM)
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
	c.end(t, processes["a"], "a", syscall.SIGTERM)
	c.records.judge(t)
}

// cluster is an API server, and the processes that reconcile its objects.
type cluster struct {
	client    client.Client
	dir       string // with the store and the kubeconfig
	namespace string // of the objects
	records   *records
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
	made := &cluster{client: c, dir: dir}
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
	c.namespace, c.records = n.Name, &records{open: map[string]int{}, closed: map[string]chan struct{}{}}
}

// emptyMemory is that of a process that owns all slots, with one object.
func (c *cluster) emptyMemory(t *testing.T) memory {
	t.Helper()
	c.create(t, 1)
	p := c.start(t, "empty")
	c.wait(t, "empty has its object", time.Time{}, func(last map[string]work) bool { return len(last) == 1 })
	m := p.memory(t)
	c.end(t, p, "empty", syscall.SIGTERM)
	c.newNamespace(t)
	return m
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
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: objectName(rand.IntN(objects))}}
		patch := fmt.Sprintf(`{"data":{"value":"%d"}}`, rand.Int())
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
}

// memory is what a process has after a collection, in bytes.
type memory struct{ heap, resident int64 }

func (m memory) String() string {
	return fmt.Sprintf("heap %.2f MiB, resident %.1f MiB", float64(m.heap)/(1<<20), float64(m.resident)/(1<<20))
}

// memory asks a process for it.
func (p *process) memory(t *testing.T) memory {
	t.Helper()
	if _, err := fmt.Fprintln(p.ask, "memory"); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-p.answer:
		return m
	case <-time.After(time.Minute):
		t.Fatal("no answer within a minute")
		return memory{}
	}
}

// start starts a process of main's.
func (c *cluster) start(t *testing.T, instance string) *process {
	t.Helper()
	p := exec.CommandContext(t.Context(), os.Args[0], "-kubeconfig", filepath.Join(c.dir, "kubeconfig"),
		"-namespace", c.namespace, "-instance", instance, "-store", "sqlite:"+filepath.Join(c.dir, c.namespace+".db"),
		"-metrics", "0", "-slots", "64", "-lease", lease.String(), "-settle", "1s")
	p.Env, p.Stderr = append(os.Environ(), "CONTROLLER_PROCESS=1"), t.Output()
	ask, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.records.closed[instance] = make(chan struct{})
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill() // it has ended, unless the test failed before
		_ = p.Wait()
	})
	answer := make(chan memory, 1)
	go c.records.read(instance, out, answer)
	return &process{p, ask, answer}
}

// end ends a process, and waits until all that it has written is read.
func (c *cluster) end(t *testing.T, p *process, instance string, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	<-c.records.closed[instance]
	if err := p.Wait(); s == syscall.SIGTERM && err != nil {
		t.Errorf("%s: %v", instance, err)
	}
}

// wait waits until what has been reconciled since a moment is as wanted.
func (c *cluster) wait(t *testing.T, what string, since time.Time, holds func(last map[string]work) bool) {
	t.Helper()
	for limit := time.Now().Add(3 * time.Minute); !holds(c.records.latest(since)); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s: not within three minutes", what)
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
