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
