// Package kinds is what tasks can run in the program: one line for each kind.
package kinds

import (
	"sync"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/callback"
	"github.com/shardctl/shardctl/pkg/tasks/exec"
	"github.com/shardctl/shardctl/pkg/tasks/httptask"
)

// All are the kinds that a configuration may name.
var All = sync.OnceValue(func() *tasks.Kinds {
	kinds, err := tasks.NewKinds(exec.Kind{}, httptask.Kind{}, callback.Kind{})
	if err != nil {
		panic(err) // two have one name: every test shows it
	}
	return kinds
})
