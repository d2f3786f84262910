package dev

import (
	"errors"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store"
)

// Options are what the command line takes.
type Options struct {
	Replicas int // 1 to 50
	Tasks    int // 1 to 10000
	Cap      int // most tasks that one replica owns; at least 1
	Port     int // of the page, on the loopback address; 0: any that is free
	// Store is the URI of the store, where the cluster is called dev and stays. Empty: a file of its own.
	Store string
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
	if _, err := store.Parse(store.Config{URI: o.Store}); o.Store != "" && err != nil {
		errs = append(errs, fmt.Errorf("--store: %w", err))
	}
	return errors.Join(errs...)
}
