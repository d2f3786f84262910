//go:build linux

package chaos

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/test/e2e/harness"
)

// Kinds of commands among the tasks that are always there; the rest are plain.
const (
	forking  = 8
	stubborn = 6 // ignore SIGTERM
	calls    = 4 // http tasks, beside the commands
)

const (
	callGroup = "calls"
	extraName = "extra" // of tasks that come and go
)

// alwaysListed says whether a key is on every list.
func alwaysListed(key string) bool { return !strings.HasPrefix(key, harness.Group+"/"+extraName+"-") }

// lists is the task list at one time of a chaos test. A replica believes the higher revision.
type lists struct {
	revision int
	extra    int // tasks extra-1 … are there
}

// commands are the keys of all tasks that record.
func (l lists) commands() []string {
	var keys []string
	add := func(name string, n int) {
		for i := range n {
			keys = append(keys, fmt.Sprintf("%s/%s-%02d", harness.Group, name, i+1))
		}
	}
	add("plain", AlwaysTasks-forking-stubborn)
	add("fork", forking)
	add("stubborn", stubborn)
	add(extraName, l.extra)
	return keys
}

// callKeys are those of the http tasks.
func callKeys() []string {
	var keys []string
	for i := range calls {
		keys = append(keys, fmt.Sprintf("%s/call-%d", callGroup, i+1))
	}
	return keys
}

type object = map[string]any

// config is the configuration of one replica.
func (s *trial) config(name, server, admin string) (string, error) {
	config := object{
		"version":   1,
		"cluster":   cluster,
		"instance":  name,
		"revision":  s.lists.revision,
		"store":     object{"uri": s.backend.URI()},
		"lease":     object{"duration": Lease.String()},
		"rebalance": object{"settle": "500ms"},
		"shutdown":  object{"timeout": "5s"},
		"server":    object{"listen": server, "advertise": server},
		"admin":     object{"listen": admin},
		"log":       object{"level": "debug"},
	}
	s.apps.configure(name, config, []object{
		{"name": harness.Group, "tasks": s.lists.tasks(s.bins.Recorder, s.records)},
		{"name": callGroup, "tasks": []object{callTask(s.far.URL)}},
	})
	text, err := yaml.Marshal(config)
	return string(text), err
}

// tasks are the commands of the list, which record in a directory.
func (l lists) tasks(recorder, records string) []object {
	task := func(name string, n int, args ...string) object {
		return object{
			"name":    fmt.Sprintf("%s-{01..%02d}", name, n),
			"exec":    object{"command": append([]string{recorder}, args...), "env": object{"RECORD_DIR": records}},
			"stop":    object{"timeout": "300ms"},
			"backoff": object{"initial": "200ms", "max": "1s"},
		}
	}
	tasks := []object{
		task("plain", AlwaysTasks-forking-stubborn), task("fork", forking, "--fork"),
		task("stubborn", stubborn, "--ignore-term"),
	}
	if l.extra > 0 {
		tasks = append(tasks, task(extraName, l.extra))
	}
	return tasks
}

func callTask(url string) object {
	return object{
		"name":    fmt.Sprintf("call-{1..%d}", calls),
		"http":    object{"url": url, "timeout": "500ms"},
		"backoff": object{"initial": "200ms", "max": "1s"},
	}
}
