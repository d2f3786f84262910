//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// own is a cluster whose scenario writes the configuration itself. What follows below is joined with a header that
// names the store, the instance and free ports. Commands find a directory of the scenario in $(DIR).
type own struct {
	*harness.Cluster
	dir    string
	header map[string]any // of every replica; scenarios change it
	body   string         // YAML: groups
}

// newOwn makes a cluster on a SQLite file with the lease of all scenarios.
func newOwn(name, body string) *own {
	GinkgoHelper()
	o := &own{Cluster: NewCluster(name, harness.Options{Lease: Lease}), body: body}
	var err error
	o.dir, err = os.MkdirTemp(Work, name+"-files-")
	Expect(err).NotTo(HaveOccurred())
	o.header = map[string]any{
		"version": 1, "cluster": "own",
		"store":     map[string]any{"uri": SQLiteURI()},
		"lease":     map[string]any{"duration": Lease.String()},
		"rebalance": map[string]any{"settle": "300ms"},
		"shutdown":  map[string]any{"timeout": "10s"},
	}
	return o
}

// text is a whole configuration.
func (o *own) text(name, server, admin string, changes ...map[string]any) string {
	GinkgoHelper()
	header := map[string]any{
		"instance": name,
		"server":   map[string]any{"listen": server, "advertise": server},
		"admin":    map[string]any{"listen": admin},
	}
	for _, change := range append([]map[string]any{o.header}, changes...) {
		maps.Copy(header, change)
	}
	text, err := yaml.Marshal(header)
	Expect(err).NotTo(HaveOccurred())
	return string(text) + strings.ReplaceAll(o.body, "$(DIR)", o.dir)
}

// start starts a replica; changes are fields of its header.
func (o *own) start(ctx context.Context, name string, changes ...map[string]any) *harness.Replica {
	GinkgoHelper()
	return o.startWith(ctx, name, nil, changes...)
}

func (o *own) startWith(ctx context.Context, name string, args []string, changes ...map[string]any) *harness.Replica {
	GinkgoHelper()
	r, err := o.StartWith(ctx, name, func(server, admin string) (string, error) {
		return o.text(name, server, admin, changes...), nil
	}, args...)
	Expect(err).NotTo(HaveOccurred())
	return r
}

// rewrite writes the configuration of a running replica again, from the body as it is now.
func (o *own) rewrite(r *harness.Replica, changes ...map[string]any) {
	GinkgoHelper()
	Expect(
		os.WriteFile(r.Config, []byte(o.text(r.Name, r.Client.Server, r.Client.Admin, changes...)), 0o600),
	).To(Succeed())
}

// lines are those of a file that commands wrote to, none when it is not there.
func (o *own) lines(file string) []string {
	data, err := os.ReadFile(filepath.Join(o.dir, file))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(data), "\n"), "\n")
}

// task is what one replica says of a task.
func task(ctx context.Context, r *harness.Replica, key string) (harness.Task, error) {
	tasks, err := r.Client.Tasks(ctx)
	if err != nil {
		return harness.Task{}, err
	}
	for _, t := range tasks {
		if t.Key == key {
			return t, nil
		}
	}
	return harness.Task{}, fmt.Errorf("%s does not know %s", r.Name, key)
}

// eventuallyTask waits until a replica says of a task what matches.
func eventuallyTask(ctx context.Context, r *harness.Replica, key string, match OmegaMatcher) harness.Task {
	GinkgoHelper()
	var seen harness.Task
	Eventually(func() (harness.Task, error) {
		var err error
		seen, err = task(ctx, r, key)
		return seen, err
	}).Should(match)
	return seen
}

// eventuallyState is eventuallyTask for a state.
func eventuallyState(ctx context.Context, r *harness.Replica, key, state string) harness.Task {
	GinkgoHelper()
	return eventuallyTask(ctx, r, key, HaveField("State", state))
}

// eventuallyProblem waits for a problem and returns it.
func eventuallyProblem(ctx context.Context, r *harness.Replica, reason string) harness.Problem {
	GinkgoHelper()
	var found []harness.Problem
	Eventually(func() ([]harness.Problem, error) {
		status, err := r.Client.Status(ctx)
		found = status.ProblemsOf(reason)
		return found, err
	}).ShouldNot(BeEmpty(), reason)
	return found[0]
}

// eventuallyNoProblem waits until a problem is gone.
func eventuallyNoProblem(ctx context.Context, r *harness.Replica, reason string) {
	GinkgoHelper()
	Eventually(func() ([]harness.Problem, error) {
		status, err := r.Client.Status(ctx)
		return status.ProblemsOf(reason), err
	}).Should(BeEmpty(), reason)
}

// shardctl runs a command and waits for it.
func shardctl(ctx context.Context, args ...string) harness.CommandResult {
	GinkgoHelper()
	result, err := harness.Command(ctx, Bins.Shardctl, args...)
	Expect(err).NotTo(HaveOccurred())
	return result
}
