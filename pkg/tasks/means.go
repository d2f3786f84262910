package tasks

import (
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect"
)

// means are what all runs share.
type means struct {
	cfg       Config
	starts    chan struct{} // a place for each command that may be starting
	calls     chan struct{} // the same for start requests: an endpoint that hangs holds up no command
	logs      *logs
	readers   sync.WaitGroup // of commands' output
	outputEnd time.Duration  // how long a sink that takes nothing is waited for once the command is gone
}

// asked is what operators ask of the task.
func (m *means) asked(key elect.Key) Asked {
	if m.cfg.Asked == nil {
		return Asked{}
	}
	return m.cfg.Asked(key)
}

func (m *means) log(hold Hold) logr.Logger {
	return m.cfg.Logger.WithValues("key", string(hold.Key()), "session", hold.Session())
}
