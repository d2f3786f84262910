//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"sync"
	"time"

	"go.yaml.in/yaml/v4"
)

// Options describe the cluster of a scenario. Every replica gets them all; only name and ports are its own.
type Options struct {
	StoreURI string
	Database string // MongoDB; empty: the URI's
	Lease    time.Duration
	Settle   time.Duration // membership must have been stable for so long before keys move for balance
	Cap      int           // 0: no cap
	Tasks    int           // exec tasks topics/topic-NNN that record
	Shutdown time.Duration // how long tasks get after SIGTERM; default 10 s
	// StopTimeout is the time from a task's stop signal to SIGKILL; 0: the program's default.
	StopTimeout time.Duration
	// TempDir is where replicas and their tasks make temporary files. Default: where this process does.
	TempDir string
	// Recorder are further arguments of each task: --ignore-term, --fork.
	Recorder []string
	// Odd are further tasks of the group, each with recorder arguments of its own. Checks that count tasks count them
	// too.
	Odd []OddTask
}

// OddTask is a task that differs from the others of its cluster.
type OddTask struct {
	Name     string
	Recorder []string
	Fields   map[string]any // further fields of the task, as in the configuration
}

// Group is the group of all tasks of a cluster.
const Group = "topics"

// recordEnv says to a task where to record, and marks every process of a cluster.
const recordEnv = "RECORD_DIR"

type object = map[string]any

// config is the configuration file of one replica.
func (o Options) config(name, server, admin, recorder, records string) ([]byte, error) {
	store := object{"uri": o.StoreURI}
	if o.Database != "" {
		store["database"] = o.Database
	}
	record := func(name string, args []string, fields object) object {
		task := object{
			"name": name,
			"exec": object{
				"command": append([]string{recorder}, args...),
				"env":     object{recordEnv: records},
			},
		}
		if o.StopTimeout > 0 {
			task["stop"] = object{"timeout": o.StopTimeout.String()}
		}
		maps.Copy(task, fields)
		return task
	}
	tasks := []object{record(fmt.Sprintf("topic-{%03d..%03d}", 1, o.Tasks), o.Recorder, nil)}
	for _, odd := range o.Odd {
		tasks = append(tasks, record(odd.Name, odd.Recorder, odd.Fields))
	}
	group := object{"name": Group, "tasks": tasks}
	if o.Cap > 0 {
		group["cap"] = o.Cap
	}
	shutdown := o.Shutdown
	if shutdown == 0 {
		shutdown = 10 * time.Second
	}
	return yaml.Marshal(object{
		"version":   1,
		"cluster":   "e2e",
		"instance":  name,
		"store":     store,
		"lease":     object{"duration": o.Lease.String()},
		"rebalance": object{"settle": o.Settle.String()},
		"shutdown":  object{"timeout": shutdown.String()},
		"server":    object{"listen": server, "advertise": server},
		"admin":     object{"listen": admin},
		"log":       object{"level": "debug"},
		"groups":    []object{group},
	})
}

// Key is the key of a cluster's i-th task, counted from 1.
func Key(i int) string { return fmt.Sprintf("%s/topic-%03d", Group, i) }

// Ports come from below the range that the kernel gives to outgoing connections. So none of those takes one between the
// moment it is found free and the moment a replica listens on it.
const (
	firstPort = 20000
	lastPort  = 30000
)

var ports struct {
	sync.Mutex
	next int
}

// freeAddr returns a loopback address that is not listened on and that was not given out before.
func freeAddr(ctx context.Context) (string, error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = firstPort + os.Getpid()%97*100 // another test process begins elsewhere
	}
	var config net.ListenConfig
	for range lastPort - firstPort {
		addr := fmt.Sprintf("127.0.0.1:%d", ports.next)
		if ports.next++; ports.next == lastPort {
			ports.next = firstPort
		}
		if l, err := config.Listen(ctx, "tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", errors.New("no free port on the loopback interface")
}
