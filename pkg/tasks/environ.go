package tasks

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// environment is NAME → value.
type environment map[string]string

func parseEnviron(environ []string) environment {
	env := make(environment, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			env[name] = value
		}
	}
	return env
}

// list is env as NAME=value in order of names, so that equal environments look equal.
func (env environment) list() []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// withheld says whether a variable of the replica is kept from its tasks: what opens the store or the admin API, and the socket by which
// the replica itself would tell its own supervisor that it is ready.
func withheld(name string) bool {
	return name == "SHARDCTL_STORE_URI" || strings.HasPrefix(name, "SHARDCTL_ADMIN_") || name == "NOTIFY_SOCKET"
}

// scheduledAt is a tick as commands and far sides see it: RFC 3339, in UTC so that it is the same on every replica.
func scheduledAt(tick time.Time) string { return tick.UTC().Format(time.RFC3339Nano) }

// own are the task's own variables at a start.
func (r *running) own(st start) environment {
	own := environment{
		"SHARDCTL_TASK":          r.task.Name,
		"SHARDCTL_GROUP":         r.task.Group,
		"SHARDCTL_KEY":           string(r.hold.Key()),
		"SHARDCTL_FENCING_TOKEN": strconv.FormatInt(st.token, 10),
		"SHARDCTL_INSTANCE":      r.s.cfg.Instance,
		"SHARDCTL_SESSION":       r.hold.Session(),
	}
	if r.task.Index != "" {
		own["SHARDCTL_INDEX"] = r.task.Index
	}
	if !st.scheduledAt.IsZero() {
		own["SHARDCTL_SCHEDULED_AT"] = scheduledAt(st.scheduledAt)
	}
	return own
}

// lookup finds a variable in the first environment that has it.
func lookup(envs ...environment) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, env := range envs {
			if value, ok := env[name]; ok {
				return value, true
			}
		}
		return "", false
	}
}

// command expands the task's command for one start. The task's own variables win over its env, and that over the replica's; values of
// env see the own ones and the replica's.
func (r *running) command(st start) (Command, error) {
	base, own := parseEnviron(r.s.cfg.Environ()), r.own(st)
	set := make(environment, len(r.task.Exec.Env))
	for _, name := range slices.Sorted(maps.Keys(r.task.Exec.Env)) {
		value, err := Expand(r.task.Exec.Env[name], lookup(own, base))
		if err != nil {
			return Command{}, fmt.Errorf("exec.env.%s: %w", name, err)
		}
		set[name] = value
	}
	all := lookup(own, set, base)
	dir, err := Expand(r.task.Exec.Dir, all)
	if err != nil {
		return Command{}, fmt.Errorf("exec.dir: %w", err)
	}
	args := make([]string, len(r.task.Exec.Command))
	for i, arg := range r.task.Exec.Command {
		if args[i], err = Expand(arg, all); err != nil {
			return Command{}, fmt.Errorf("exec.command[%d]: %w", i, err)
		}
	}
	env := maps.Clone(base)
	maps.DeleteFunc(env, func(name, _ string) bool { return withheld(name) })
	maps.Copy(env, set)
	maps.Copy(env, own)
	if len(args) == 0 || args[0] == "" {
		return Command{}, errors.New("exec.command: it is empty")
	}
	if args[0], err = findProgram(args[0], env["PATH"], dir); err != nil {
		return Command{}, fmt.Errorf("exec.command: %w", err)
	}
	return Command{
		Key: r.hold.Key(), Session: r.hold.Session(), Token: st.token, Args: args, Env: env.list(), Dir: dir,
	}, nil
}

// findProgram finds a program without a slash in the task's PATH, which may not be the replica's.
func findProgram(name, path, dir string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, place := range filepath.SplitList(path) {
		if !filepath.IsAbs(place) {
			place = filepath.Join(dir, place)
		}
		file, err := filepath.Abs(filepath.Join(place, name))
		if err != nil {
			continue
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("program %q is not in PATH", name)
}
