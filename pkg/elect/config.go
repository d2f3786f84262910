package elect

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Config is what an Elector is made of. Only Store is required.
type Config struct {
	// Store is where the documents are. When its calls for one kind of document fail for half of the lease, that is
	// logged as an error, once.
	Store store.Store
	// Member is what this instance says of itself. Session, Rev, Opened and LeaseMS are filled in. Instance
	// defaults to the host name.
	Member Member

	LeaseDuration time.Duration // T; default 20 s, from 1 s to 24 h
	RenewDeadline time.Duration // D; default and at most three quarters of LeaseDuration

	Logger logr.Logger // give it the instance as a value, where there are several
	Clock  Clock       // default SystemClock

	// OnStuck is called when the hard deadline (0.9 T) has come and the runs of these keys have not returned. It is
	// also called T/4 after they were informed that their key is another's. The process must not go on. It is called
	// once for each such deadline. The default logs, writes a line to stderr, and EXITS THE PROCESS with status 75. At the
	// hard deadline it is
	// called although a log sink or a hook holds up the elector.
	OnStuck func(keys []Key)

	// Inside is for the programs of this module alone: leave it zero.
	Inside electing.Options
}

func (c *Config) setDefaults() {
	c.Member = c.Member.Clone()
	if c.LeaseDuration == 0 {
		c.LeaseDuration = protocol.DefaultLease
	}
	if c.Clock == nil {
		c.Clock = SystemClock()
	}
	if c.Member.Instance == "" {
		if host, err := os.Hostname(); err == nil {
			c.Member.Instance = host
		}
	}
	if c.OnStuck == nil {
		log := c.Logger
		grace := c.LeaseDuration / 50
		c.OnStuck = func(keys []Key) {
			logged := make(chan struct{})
			go func() {
				defer close(logged)
				// A process whose logger is silent does not vanish without a word either.
				fmt.Fprintf(
					os.Stderr, "elect: work of %v goes on although its lease is over: exiting with status %d, so that no "+
						"other process works on it at the same time\n", keys, exitLeaseLost,
				)
				log.Error(
					ErrLeaseLost, "Runs outlived the lease: exiting, so that no other runs at the same time", "keys",
					keys,
				)
			}()
			select { // a log or a stderr that blocks must not keep the process alive
			case <-logged:
			case <-time.After(grace):
			}
			os.Exit(exitLeaseLost)
		}
	}
}

// exitLeaseLost is EX_TEMPFAIL of sysexits.h: the lease was lost.
const exitLeaseLost = 75

func (c *Config) validate() (protocol.Params, error) {
	p, err := protocol.NewParams(c.LeaseDuration, c.RenewDeadline)
	if c.LeaseDuration > record.MaxLease {
		err = errors.Join(err, fmt.Errorf("lease duration %v: must be at most %v", c.LeaseDuration, record.MaxLease))
	}
	if c.Store == nil {
		err = errors.Join(err, errors.New("store: required"))
	}
	if c.Member.Instance == "" {
		err = errors.Join(err, errors.New("member.instance: required, since the host has no name"))
	}
	for group, limit := range c.Member.Caps {
		if limit < 0 {
			err = errors.Join(err, fmt.Errorf("member.caps[%s] = %d: must not be negative", group, limit))
		}
	}
	if c.Member.MaxTasks < 0 {
		err = errors.Join(err, fmt.Errorf("member.maxTasks = %d: must not be negative", c.Member.MaxTasks))
	}
	return p, errors.Join(err, c.Member.Validate())
}

// predecessors are those of the configuration whose remote leases a document can hold. The others are left to the
// lease, as any other is.
func predecessors(of []electing.Session, log logr.Logger) []record.Session {
	var all []record.Session
	for _, p := range of {
		session := record.Session{ID: p.ID, Remote: record.RemoteLeases(p.Remote)}
		if err := session.Validate(); err != nil {
			log.Error(err, "Too many remote leases of a predecessor: it is left to its lease", "session", p.ID)
			continue
		}
		all = append(all, session)
	}
	return all
}
