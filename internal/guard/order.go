package guard

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Order is what the guard asks of the worker.
type Order uint8

// The orders.
const (
	Drain    Order = iota + 1 // SIGTERM or SIGINT: release everything in order, then exit
	Reload                    // SIGHUP: read the configuration again
	HardStop                  // a second SIGTERM or SIGINT: tasks are being killed, exit now; a kill follows at once
)

// String is the order in a word.
func (o Order) String() string {
	switch o {
	case Drain:
		return "drain"
	case Reload:
		return "reload"
	case HardStop:
		return "hardstop"
	default:
		return fmt.Sprintf("order %d", uint8(o))
	}
}

// Alarm says that something of a task is alive that should not be: SIGKILL was sent and has not helped. The key stays
// held until it is gone.
type Alarm struct {
	Session string    `json:"session"`
	Key     elect.Key `json:"key"`
	Token   int64     `json:"token"`
	PIDs    []int     `json:"pids,omitempty"` // what was found, at most 16 of them
	PastX   bool      `json:"pastX"`          // the session's hard deadline has passed as well
}
