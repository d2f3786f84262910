package dev

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

// applications are the process ids of the workers by the name of their replica.
func (r *devProcess) applications() map[string]int {
	r.t.Helper()
	all := map[string]int{}
	for _, process := range r.left() {
		pid, name, _ := strings.Cut(process, " ")
		environ, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
		if err != nil || !strings.HasSuffix(name, "worker.py ") {
			continue
		}
		for entry := range strings.SplitSeq(string(environ), "\x00") {
			if instance, ok := strings.CutPrefix(entry, "SHARDCTL_INSTANCE="); ok {
				all[instance] = number(r.t, pid)
			}
		}
	}
	return all
}

// began are the starts that the applications have printed to the logs, by replica.
func (r *devProcess) began() map[string]int {
	r.t.Helper()
	logs, err := filepath.Glob(filepath.Join(r.tmp, "shardctl-dev-*", "r*.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	began := map[string]int{}
	for _, file := range logs {
		content, err := os.ReadFile(file)
		if err != nil {
			r.t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".log")
		began[name] = strings.Count(string(content), " begins with token ")
	}
	return began
}

// A hundred keys run in five processes in Python. When one of them is killed its keys run again, and the page goes on.
func TestRealClusterOfApplications(t *testing.T) {
	testprocess.NeedPrograms(t, suites.Clients, "make clients-install", "python3")
	clients, err := filepath.Abs("../../clients/python")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", clients)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	worker, err := filepath.Abs("../../examples/application/worker.py")
	if err != nil {
		t.Fatal(err)
	}
	r := startReal(t, "--app", "python3 '"+worker+"'", "--port", "0")
	url := r.until(`the page is on (http://\S+), logs`)[0]
	r.until(`group topics: 100 of 100 running`)
	r.evenly(url, map[string]int{"r1": 20, "r2": 20, "r3": 20, "r4": 20, "r5": 20})
	before := r.applications()
	if len(before) != 5 {
		t.Fatalf("the applications are %v", before)
	}
	r.eventually("a hundred keys begin in applications", func() bool { // they say so after they are said to run
		total := 0
		for _, n := range r.began() {
			total += n
		}
		return total >= 100
	})
	tokens := tokensOf(t, url)

	const ready = `instance r3: application pid \d+, ready`
	if !regexp.MustCompile(ready).MatchString(strings.Join(r.seen, "\n")) {
		r.until(ready)
	}
	if err := syscall.Kill(before["r3"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.until(ready) // the next one
	r.eventually("another application of r3", func() bool {
		now := r.applications()["r3"]
		return now != 0 && now != before["r3"]
	})
	r.eventually("each key of r3 runs again", func() bool {
		now := tokensOf(t, url)
		for key, of := range tokens {
			if of.owner == "r3" && now[key].token <= of.token || now[key].state != api.Running {
				return false
			}
		}
		return len(now) == 100
	})
	for name, pid := range r.applications() {
		if name != "r3" && pid != before[name] {
			t.Errorf("the application of %s is %d, was %d", name, pid, before[name])
		}
	}

	r.quit()
}

// task is who runs a task.
type task struct {
	owner string
	state api.TaskState
	token int64
}

// tokensOf is how all tasks are.
func tokensOf(t *testing.T, url string) map[string]task {
	t.Helper()
	c, err := client.New(url, client.WithHTTPClient(http.DefaultClient))
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Tasks().List(t.Context(), client.Filter{Group: group})
	if err != nil {
		t.Fatal(fmt.Errorf("ask %s: %w", url, err))
	}
	all := map[string]task{}
	for i := range list {
		all[list[i].Key] = task{list[i].Instance, list[i].State, list[i].FencingToken}
	}
	return all
}

// evenly waits until the replicas run so many tasks each.
func (r *devProcess) evenly(url string, want map[string]int) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("tasks run as in %v", want), func() bool {
		got := map[string]int{}
		for _, of := range tokensOf(r.t, url) {
			if of.state == api.Running {
				got[of.owner]++
			}
		}
		return maps.Equal(got, want)
	})
}
