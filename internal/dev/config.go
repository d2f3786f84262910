package dev

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Options are what the command line takes.
type Options struct {
	Replicas int // 1 to 50
	Tasks    int // 1 to 10000
	Cap      int // most tasks that one replica owns; at least 1
	Port     int // of the page, on the loopback address; 0: any that is free
	// Store is the URI of the store, where the cluster is called dev and stays. It is given to the replicas as it is
	// written, with $(NAME) and $(file:PATH), so that no secret stands in their files. Empty: a file of its own.
	Store string
	// App is a line for sh that starts an application, one beside each replica. Empty: each task is a command.
	App string
}

// Limits keep a mistyped number from starting more than a laptop bears.
const (
	maxReplicas = 50
	maxTasks    = 10000
	maxPort     = 65535
)

// Defaults are the options of a bare `shardctl dev`.
func Defaults() Options { return Options{Replicas: 5, Tasks: 100, Cap: 30, Port: 8080} }

// Validate reports everything that is wrong at once, each with the flag, its value and what is allowed.
func (o Options) Validate() error {
	var errs []error
	within := func(flag string, value, low, high int) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("--%s %d: want %d to %d", flag, value, low, high))
		}
	}
	within("replicas", o.Replicas, 1, maxReplicas)
	within("tasks", o.Tasks, 1, maxTasks)
	if o.Cap < 1 {
		errs = append(errs, fmt.Errorf("--cap %d: want 1 or more", o.Cap))
	}
	within("port", o.Port, 0, maxPort)
	if o.Store != "" {
		uri, err := variables.Expand(o.Store, os.LookupEnv)
		if err == nil {
			_, err = driver.Parse(store.Config{URI: uri})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--store: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Group is the name of the group that all tasks are in.
const group = "topics"

// clusterName keeps what is tried out from a cluster that works in the same store.
const clusterName = "dev"

// m is a mapping of a configuration.
type m = map[string]any

// configFile is the configuration of one replica. Its lease is as short as a demonstration wants it: a second less and
// a busy laptop loses leases by its own load.
func configFile(o Options, name, dir, server, admin string) ([]byte, error) {
	uri := o.Store
	if uri == "" {
		local, err := driver.LocalURI(filepath.Join(dir, "dev.db"))
		if err != nil {
			return nil, err
		}
		uri = literal(local)
	}
	file := m{
		"version":   1,
		"instance":  name,
		"cluster":   clusterName,
		"store":     m{"uri": uri},
		"lease":     m{"duration": "2s"},
		"rebalance": m{"settle": "1s"},
		"shutdown":  m{"timeout": "4s"},
		"server":    m{"listen": server, "advertise": server},
		"admin":     m{"listen": admin},
		"log":       m{"format": "json"},
		"groups":    []m{{"name": group, "cap": o.Cap, "tasks": []m{o.task()}}},
	}
	if o.App != "" {
		file["app"] = m{
			"listen": "unix:" + literal(filepath.Join(dir, name+".sock")), "command": []string{"sh", "-c", literal(o.App)},
		}
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(file); err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// task stands for all tasks.
func (o Options) task() m {
	if o.App != "" {
		return m{"name": taskNames(o.Tasks), "assign": m{}, "stop": m{"timeout": "2s"}}
	}
	return m{
		"name": taskNames(o.Tasks),
		"exec": m{"command": []string{"sh", "-c", literal(script(o.Tasks))}},
		"stop": m{"signal": "SIGTERM", "timeout": "2s"},
	}
}

// What tasks write together, at most, and how long each of them is quiet at least.
const (
	linesPerSecond = 20
	quiet          = 5 // seconds
)

// script is what each task does: it writes a line now and then, so that there are logs to look at.
func script(tasks int) string {
	return fmt.Sprintf(`n=0; while :; do n=$((n+1)); `+
		`echo "$SHARDCTL_TASK on $SHARDCTL_INSTANCE with token $SHARDCTL_FENCING_TOKEN: line $n"; sleep %d; done`,
		max(quiet, tasks/linesPerSecond))
}

// taskNames are braces for n names of equal width.
func taskNames(n int) string {
	width := max(3, len(fmt.Sprint(n)))
	return fmt.Sprintf("topic-{%0*d..%0*d}", width, 1, width, n)
}

// literal keeps a text from being taken for a variable.
func literal(s string) string { return strings.ReplaceAll(s, "$(", "$$(") }
