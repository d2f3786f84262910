package protocol

import (
	"fmt"
	"time"
)

// Params are the protocol's constants, all derived from the lease duration T.
type Params struct {
	T     time.Duration // lease duration: a session silent for so long may be marked dead
	Renew time.Duration // D: without an acknowledged heartbeat for so long, tasks are cancelled
	Kill  time.Duration // 0.8 T: and killed
	Hard  time.Duration // X = 0.9 T: and nothing of them is alive any more

	Heartbeat time.Duration // T/10: between heartbeats
	Retry     time.Duration // T/40: after a failed heartbeat
	Observe   time.Duration // min(T/10, 400 ms): between looks at the other sessions
	Op        time.Duration // T/6: limit of each store operation
	Outage    time.Duration // T/4: own failures for longer make all ages start again
	Wake      time.Duration // T/50: anyone who holds a deadline looks at the clock at least so often
}

// Limits of the lease duration.
const (
	MinLease     = time.Second
	DefaultLease = 20 * time.Second
)

// NewParams derives the constants from the lease duration and the renewal deadline. renew 0 means three quarters of
// lease, which is also the most it may be.
func NewParams(lease, renew time.Duration) (Params, error) {
	if lease < MinLease {
		return Params{}, fmt.Errorf("lease duration %v: must be at least %v", lease, MinLease)
	}
	if renew == 0 {
		renew = lease * 3 / 4
	}
	if renew <= 0 || renew > lease*3/4 {
		return Params{}, fmt.Errorf(
			"renew deadline %v: must be above 0 and at most %v, three quarters of the lease duration %v", renew,
			lease*3/4, lease,
		)
	}
	return Params{
		T: lease, Renew: renew, Kill: lease * 8 / 10, Hard: lease * 9 / 10,
		Heartbeat: lease / 10, Retry: lease / 40, Observe: min(lease/10, 400*time.Millisecond),
		Op: lease / 6, Outage: lease / 4, Wake: lease / 50,
	}, nil
}
