//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// job is a target of the Makefile, or several.
type job struct {
	name  string
	make  []string // its targets and variables, NAME=value; none: the target that is called as the job is
	limit time.Duration
	// needs are targets that install what the job runs with, once before all jobs of a run.
	needs []string
	// yields is for jobs without leases: what runs beside them has the processors first.
	yields bool
	// reached are packages that a change has to reach for the job to run in ci. None: it always runs.
	reached []string
}

// stage is lanes that run beside each other. Stages follow one another, until one has failed.
type stage []lane

type lane []string

const (
	short   = 15 * time.Minute
	longest = 25 * time.Minute
)

var jobs = []job{
	{name: "compile", limit: short},
	{name: "unit", limit: longest},
	{name: "race", limit: longest},
	{name: "modules", limit: short},
	{name: "promises", limit: short},
	{name: "chaos-short", limit: short},
	{name: "docs", limit: short},

	{name: "check", limit: longest, yields: true},
	{name: "chart", limit: longest, yields: true, needs: []string{"tools"}},
	{name: "page", limit: longest, needs: []string{"tools"}},
	{name: "others", limit: longest, make: []string{"e2e", "E2E_LABELS=!/^(P[0-9]+|nightly)$$/"}},
	{
		name: "stores-short", limit: longest, needs: []string{"stores-install"},
		reached: []string{
			"./pkg/elect/...", "./pkg/store/...", "./test/e2e/stores", "./test/mutexes", "./internal/storecopy",
			"./test/testservers",
		},
	},
	{
		name: "brokers-short", limit: longest, needs: []string{"brokers-install"},
		reached: []string{"./pkg/tasks/subscribe/...", "./test/e2e/brokers", "./test/testbroker"},
	},
	{name: "clients", limit: short, needs: []string{"clients-install"}},
	{name: "kube", limit: longest, make: []string{"kube-if-any"}},

	{name: "test", limit: longest},
	{name: "scenarios", limit: longest, make: []string{"e2e"}},
	{name: "chaos", limit: longest, make: []string{"chaos", "SECS=900"}},
	{
		name: "stores", limit: longest, make: []string{"stores-suites", "HISTORIES=120"},
		needs: []string{"stores-install"},
	},
	{
		name: "stores-sql", limit: longest, make: []string{"e2e-stores", "STORES=postgres mariadb"},
		needs: []string{"stores-install"},
	},
	{
		name: "stores-keys", limit: longest, make: []string{"e2e-stores", "STORES=etcd zookeeper"},
		needs: []string{"stores-install"},
	},
	{
		name: "stores-redis", limit: longest, make: []string{"e2e-stores", "STORES=redis quorum"},
		needs: []string{"stores-install"},
	},
	{name: "brokers", limit: longest, needs: []string{"brokers-install"}},
	{name: "api", limit: longest},
	{name: "model", limit: longest},
	{name: "simulation", limit: longest},
	{name: "fuzz", limit: longest},
	{name: "broken", limit: longest},
}

var plans = map[string][]stage{
	"test": {
		{{"compile"}},
		{{"unit", "race", "promises", "chaos-short", "docs"}},
	},
	"ci": {
		{{"others", "stores-short", "brokers-short", "clients", "page", "modules"}, {"check", "chart"}},
		{{"kube"}},
	},
	"nightly": {
		{
			{
				"test", "check", "modules", "chart", "scenarios", "chaos", "stores", "stores-sql", "stores-keys",
				"stores-redis",
				"brokers", "clients", "api", "page", "model", "simulation", "fuzz", "broken", "kube",
			},
		},
	},
}

// choose is a plan, of which only the jobs run that are named; all where none is.
func choose(plan string, only []string) ([]stage, error) {
	all, found := plans[plan]
	if !found {
		return nil, fmt.Errorf("plan %q: want test, ci or nightly", plan)
	}
	known := names(all)
	for _, name := range only {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("job %q: %s has %s", name, plan, strings.Join(known, ", "))
		}
	}
	if len(only) == 0 {
		return all, nil
	}
	var chosen []stage
	for _, s := range all {
		var lanes stage
		for _, l := range s {
			l = slices.DeleteFunc(slices.Clone(l), func(name string) bool { return !slices.Contains(only, name) })
			if len(l) > 0 {
				lanes = append(lanes, l)
			}
		}
		if len(lanes) > 0 {
			chosen = append(chosen, lanes)
		}
	}
	return chosen, nil
}

// names are the jobs of stages, in their order.
func names(stages []stage) []string {
	var all []string
	for _, s := range stages {
		for _, l := range s {
			all = append(all, l...)
		}
	}
	return all
}

func find(name string) (job, bool) {
	at := slices.IndexFunc(jobs, func(j job) bool { return j.name == name })
	if at < 0 {
		return job{}, false
	}
	return jobs[at], true
}

// installs are the targets that jobs need, each once; those that are skipped need none.
func installs(stages []stage, skip map[string]string) []string {
	var targets []string
	for _, name := range names(stages) {
		j, _ := find(name)
		if skip[name] != "" {
			continue
		}
		for _, target := range j.needs {
			if !slices.Contains(targets, target) {
				targets = append(targets, target)
			}
		}
	}
	return targets
}

// baseEnv names the revision from which a change is counted. Empty: where this branch left origin/main, or, on main
// itself, the newest commit that is a day older than the last.
const baseEnv = "SHARDCTL_CI_BASE"

// everywhere are files and folders that every job depends on.
var everywhere = []string{"go.mod", "go.sum", "Makefile", ".ci", "test/jobs"}

// change is the files that differ from a base.
type change struct {
	base  string
	files []string
}

// changed compares HEAD with its base.
func changed(ctx context.Context) (change, error) {
	base, err := baseOf(ctx)
	if err != nil {
		return change{}, err
	}
	out, err := output(ctx, "git", "diff", "--name-only", base, "HEAD")
	return change{base: base, files: strings.Fields(out)}, err
}

func baseOf(ctx context.Context) (string, error) {
	if base := os.Getenv(baseEnv); base != "" {
		return base, nil
	}
	head, err := output(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	if fork, err := output(ctx, "git", "merge-base", "origin/main", "HEAD"); err == nil && fork != head {
		return fork, nil
	}
	when, err := output(ctx, "git", "show", "-s", "--format=%ct", "HEAD")
	if err != nil {
		return "", err
	}
	last, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		return "", fmt.Errorf("time of the last commit: %w", err)
	}
	before := strconv.FormatInt(last-int64(24*time.Hour/time.Second), 10)
	base, err := output(ctx, "git", "rev-list", "-1", "--first-parent", "--before="+before, "HEAD")
	if err == nil && base == "" {
		err = fmt.Errorf("no commit is a day older than the last; set %s", baseEnv)
	}
	return base, err
}

// reaches says whether a change reaches packages: a file of one that they depend on, tests included, or below it.
func (c change) reaches(ctx context.Context, packages []string) (bool, error) {
	for _, file := range c.files {
		if slices.ContainsFunc(everywhere,
			func(of string) bool { return file == of || strings.HasPrefix(file, of+"/") }) {
			return true, nil
		}
	}
	own := "{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}"
	out, err := output(ctx, append([]string{"go", "list", "-deps", "-test", "-f", own}, packages...)...)
	if err != nil {
		return false, err
	}
	root, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return false, err
	}
	dirs := map[string]bool{}
	for dir := range strings.FieldsSeq(out) {
		dirs[strings.TrimPrefix(strings.TrimPrefix(dir, root), "/")] = true
	}
	return slices.ContainsFunc(c.files, func(file string) bool { return within(file, dirs) }), nil
}

// within says whether a file is in one of these folders, or below one, as what a package embeds is.
func within(file string, dirs map[string]bool) bool {
	if strings.HasSuffix(file, ".md") {
		return false
	}
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if dirs[dir] {
			return true
		}
	}
	return false
}

func output(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args[:2], " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
