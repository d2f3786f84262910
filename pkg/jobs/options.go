package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/schedule"
)

// DefaultGroup is the group of jobs.
const DefaultGroup = "jobs"

// Config is what a [Manager] is made of. Only Store is required.
type Config struct {
	// Store keeps who owns which job, and the history. All processes share it.
	Store store.Store
	// Elector holds the jobs. It is on the same Store, is started before Run and ended after it. Nil: Run starts and
	// ends one of its own.
	Elector *elect.Elector
	// Instance is the name of this process, as history shows it. Default: the host name.
	Instance string
	// Lease is the duration of the leases, 1 s to 24 h: how long a dead process keeps its jobs from the others.
	// Default: the Elector's, or 20 s. With an Elector no other is allowed.
	Lease time.Duration
	// Group is the first part of the jobs' keys, GROUP/NAME. Default: DefaultGroup. A configuration of shardctl on the
	// same cluster must not have a group of that name.
	Group  string
	Logger logr.Logger
}

func (c *Config) setDefaults() error {
	if c.Store == nil {
		return errors.New("store: required")
	}
	c.Group = cmp.Or(c.Group, DefaultGroup)
	if c.Elector != nil {
		of := c.Elector.LeaseDuration()
		if c.Lease != 0 && c.Lease != of {
			return fmt.Errorf("lease: %v: must be that of the elector, %v, or left out", c.Lease, of)
		}
		c.Lease = of
	}
	c.Lease = cmp.Or(c.Lease, protocol.DefaultLease)
	if c.Instance != "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("instance: required, since the host has no name: %w", err)
	}
	c.Instance = host
	return nil
}

// Option changes the rules of a job's ticks. Without one, ticks are by UTC; a tick that comes while the run before it
// goes on is skipped; the newest tick that was missed within the last hour is run; and a run that fails is not
// repeated.
type Option func(*tasks.Timing)

// In has the schedule follow the clock of a time zone of the IANA database, such as Europe/Berlin. See
// [schedule.Parse] for what happens where clocks change.
func In(zone string) Option { return func(t *tasks.Timing) { t.TimeZone = zone } }

// Replace has a tick end the run before it that still goes on, and run then.
func Replace() Option { return func(t *tasks.Timing) { t.Overlap = tasks.OverlapReplace } }

// NoCatchUp leaves out ticks that were missed while no process owned the job.
func NoCatchUp() Option { return func(t *tasks.Timing) { t.CatchUp = tasks.CatchUpNone } }

// CatchUpWithin runs the newest tick that was missed, when it is no older than window.
func CatchUpWithin(window time.Duration) Option {
	return func(t *tasks.Timing) { t.CatchUp, t.CatchUpWindow = tasks.CatchUpLast, window }
}

// Timeout ends a run that takes longer.
func Timeout(d time.Duration) Option { return func(t *tasks.Timing) { t.Timeout = d } }

// Attempts tries a run of one tick so often in all, with growing pauses, when it fails.
func Attempts(n int) Option { return func(t *tasks.Timing) { t.Retry.Attempts = n } }

// timing reads a spec as robfig/cron writes it: five fields or a descriptor, "@every 5m", and CRON_TZ=ZONE or TZ=ZONE
// before them.
func timing(spec string, options []Option) (tasks.Timing, error) {
	var t tasks.Timing
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(spec, prefix); ok {
			t.TimeZone, spec, _ = strings.Cut(rest, " ")
			break
		}
	}
	t.Schedule = strings.TrimSpace(spec)
	if text, ok := strings.CutPrefix(t.Schedule, "@every "); ok {
		every, err := time.ParseDuration(text)
		if err != nil {
			return t, fmt.Errorf("schedule %q: %w", spec, err)
		}
		t.Schedule, t.Every = "", every
	}
	for _, o := range options {
		o(&t)
	}
	return t, nil
}

// validate says what is wrong with a job's rules.
func validate(t tasks.Task) error {
	if t.Timeout < 0 || t.CatchUpWindow < 0 || t.Retry.Attempts < 0 {
		return fmt.Errorf("timeout %v, window %v, attempts %d: must not be negative",
			t.Timeout, t.CatchUpWindow, t.Retry.Attempts)
	}
	if t.Schedule == "" {
		_, err := schedule.Every(string(t.Key()), t.Every)
		return err
	}
	_, err := schedule.Parse(t.Schedule, t.TimeZone)
	return err
}
