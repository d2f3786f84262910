// Package wire is what the guard and its worker agree on: how the worker finds the guard, the messages over their
// socket, and the connection that carries them. Both processes run one program, so that its messages need no versions.
package wire

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect"
)

// DefaultLease is taken for the lease's duration until the worker has sent the real one.
const DefaultLease = 20 * time.Second

// WorkerFD is the socket's descriptor in the worker: the first after standard error.
const WorkerFD = 3

// envGuard has a [Handover] in the worker's environment.
const envGuard = "SHARDCTL_GUARD"

// Handover is what a guard gives its worker by the environment.
type Handover struct {
	FD     int            // of the socket
	PID    int            // the guard's
	Cgroup process.Cgroup // holds those of all runs; empty: there is none
}

// IsWorker says whether a guard started this process as its worker.
func IsWorker() bool { return os.Getenv(envGuard) != "" }

// AddTo returns an environment with the handover in it.
func (h Handover) AddTo(env []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, envGuard+"=") })
	return append(out, fmt.Sprintf("%s=%d:%d:%s", envGuard, h.FD, h.PID, h.Cgroup))
}

// TakeHandover reads the handover and removes it from the environment, so that commands do not inherit it.
func TakeHandover() (Handover, error) {
	value := os.Getenv(envGuard)
	if err := os.Unsetenv(envGuard); err != nil {
		return Handover{}, err
	}
	parts := strings.SplitN(value, ":", 3)
	if len(parts) == 3 {
		fd, err1 := strconv.Atoi(parts[0])
		pid, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil {
			return Handover{FD: fd, PID: pid, Cgroup: process.Cgroup(parts[2])}, nil
		}
	}
	return Handover{}, fmt.Errorf("%s=%q: want DESCRIPTOR:PID:CGROUP", envGuard, value)
}

// The variables that mark a task's processes. Whatever builds a command's environment sets them.
const (
	EnvKey     = "SHARDCTL_KEY"
	EnvSession = "SHARDCTL_SESSION"
	EnvToken   = "SHARDCTL_FENCING_TOKEN" //nolint:gosec // G101: a variable's name
)

// Marks are what a task's processes carry in their environment. The token distinguishes a run from an earlier one.
type Marks struct {
	Key, Session, Token string
}

// MarksOf reads what a process carries; zero: it carries nothing, or hides it. sure is false while it shows no
// environment, so that nothing is known.
func MarksOf(pid int) (m Marks, sure bool) {
	values, sure := process.LookEnviron(pid, EnvKey, EnvSession, EnvToken)
	if values[0] == "" || values[1] == "" {
		return Marks{}, sure
	}
	return Marks{values[0], values[1], values[2]}, true
}

var clock = elect.SystemClock()

// Now reads the machine's two steady clocks. Guard and worker run on one machine, so that an instant read by one means
// the same to the other.
func Now() elect.Instant { return clock.Now() }
