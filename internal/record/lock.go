package record

import (
	"fmt"
	"math"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Lock says who owns a key. Locks are never deleted, so their revisions, and with them the tokens, rise for ever.
type Lock struct {
	Key       Key
	Rev       int64
	WriterID  driver.WriterID
	Session   string // owner; empty: none
	Next      string // reserved for this session
	Suspended bool

	Token    int64  // the revision of the last claim
	Instance string // the owner's name, for people
	From     string // the owner before it
	Reason   Reason
	Message  string
	Since    int64 // store's clock, Unix ms, of the last change of owner
	Status   TaskStatus
}

// TaskStatus is what the owner says of the work. The lock keeps it, so that any replica can answer for all.
type TaskStatus struct {
	State     string `json:"state,omitempty"` // waiting, starting, running, stopping, backoff, done, failed
	Since     int64  `json:"since,omitempty"` // store's clock, Unix ms
	Restarts  int    `json:"restarts,omitempty"`
	LastError string `json:"lastError,omitempty"`
	// TroubleSince is since when a run that goes on does not do its work, Unix ms; 0: it does.
	TroubleSince int64 `json:"troubleSince,omitempty"`
	NextRunAt    int64 `json:"nextRunAt,omitempty"` // Unix ms
	LastTick     int64 `json:"lastTick,omitempty"`  // Unix ms of the newest tick fired
	// Schedule is a digest of the schedule that the ticks are of, and TicksTo is up to when they are dealt with
	// although none was fired, Unix ms: skipped, missed, or before the schedule was declared.
	Schedule string `json:"schedule,omitempty"`
	TicksTo  int64  `json:"ticksTo,omitempty"`
	// LastTrigger is the moment, Unix ms, of the newest tick fired because an operator asked for it.
	LastTrigger int64 `json:"lastTrigger,omitempty"`
	// Unix ms of the first declaration: ticks before it are not caught up
	FirstSeen int64 `json:"firstSeen,omitempty"`
	// Undeclared says that the key was released because its task was in no list any more. Ticks until it is declared
	// again are not caught up.
	Undeclared bool        `json:"undeclared,omitempty"`
	Outcome    *RunOutcome `json:"outcome,omitempty"`
	Lag        Lag         `json:"lag,omitzero"`
	Load       Load        `json:"load,omitzero"`
	// Settled says the run may not be moved for balance: restart: never or on-failure, or a tick in progress.
	Settled bool `json:"settled,omitempty"`
}

// Lag is how far a subscription is behind. The zero value is not known.
type Lag struct {
	Known    bool  `json:"known,omitempty"`
	Messages int64 `json:"messages,omitempty"` // published and not yet acknowledged; -1: not known
	Seconds  int64 `json:"seconds,omitempty"`  // age of the oldest of them; -1: not known
}

// Load is how much work a task is. The zero value is not known.
type Load struct {
	Known bool    `json:"known,omitempty"`
	Value float64 `json:"value,omitempty"` // in the unit in which it was reported; 0 or more
}

// Valid says whether the value is a number from 0 to 1e15.
func (l Load) Valid() bool { return l.Value >= 0 && l.Value <= maxLoad }

const maxLoad = 1e15

// Differs says whether n is another load for the purpose of weights: by a tenth or more.
func (l Load) Differs(n float64) bool {
	return !l.Known || math.Abs(n-l.Value) >= max(n, l.Value)/10 && n != l.Value
}

// Validate says whether a store will take the status: a text that is too long would hold up every later write of
// the key.
func (s TaskStatus) Validate() error {
	texts := []string{s.State, s.LastError}
	if s.Outcome != nil {
		texts = append(texts, s.Outcome.Error)
	}
	for _, text := range texts {
		if len(text) > driver.MaxText {
			return fmt.Errorf(
				"status: a text of %d bytes: at most %d are allowed: %w", len(text), driver.MaxText, driver.ErrTooLarge,
			)
		}
	}
	return nil
}

// RunOutcome is how a task that ends by itself ended; it holds on every replica until a rerun.
type RunOutcome struct {
	Succeeded bool   `json:"succeeded"`
	Final     bool   `json:"final,omitempty"` // it counts whatever the task's restart policy is
	ExitCode  int    `json:"exitCode"`
	Error     string `json:"error,omitempty"`
	At        int64  `json:"at"` // store's clock, Unix ms
	Token     int64  `json:"token"`
}

type lockBody struct {
	Token    int64      `json:"token,omitempty"`
	Instance string     `json:"instance,omitempty"`
	From     string     `json:"from,omitempty"`
	Reason   Reason     `json:"reason,omitempty"`
	Message  string     `json:"message,omitempty"`
	Since    int64      `json:"since,omitempty"`
	Status   TaskStatus `json:"status,omitzero"`
}

// Doc is l as a document.
func (l Lock) Doc() driver.Doc {
	return driver.Doc{
		Kind: driver.KindLock, ID: string(l.Key), Rev: l.Rev, WriterID: l.WriterID, Group: l.Key.Group(),
		Session: l.Session, Next: l.Next, Suspended: l.Suspended,
		Body: mustJSON(lockBody{l.Token, l.Instance, l.From, l.Reason, l.Message, l.Since, l.Status}),
	}
}

// LockFrom reads a lock from its document. What makes no sense counts as missing and is an error with the rest:
// who owns it still counts.
func LockFrom(d driver.Doc) (Lock, error) { return Guarded(d, readLock) }

func readLock(d driver.Doc) (Lock, error) {
	var b lockBody
	err := decode(d, &b)
	var m cleaner
	m.session("session", &d.Session)
	m.session("next", &d.Next)
	cleanText(&m, "instance", &b.Instance)
	cleanText(&m, "from", &b.From)
	cleanText(&m, "reason", &b.Reason)
	cleanText(&m, "message", &b.Message)
	m.number("token", &b.Token, driver.MaxRev)
	m.moment("since", &b.Since)
	m.status(&b.Status)
	return Lock{
		Key: Key(d.ID), Rev: d.Rev, WriterID: d.WriterID, Session: d.Session, Next: d.Next, Suspended: d.Suspended,
		Token: b.Token, Instance: b.Instance, From: b.From, Reason: b.Reason, Message: b.Message, Since: b.Since,
		Status: b.Status,
	}, m.err(d, err)
}

func (m *cleaner) status(s *TaskStatus) {
	cleanText(m, "status.state", &s.State)
	cleanText(m, "status.lastError", &s.LastError)
	m.moment("status.since", &s.Since)
	m.moment("status.nextRunAt", &s.NextRunAt)
	m.moment("status.lastTick", &s.LastTick)
	cleanText(m, "status.schedule", &s.Schedule)
	m.moment("status.ticksTo", &s.TicksTo)
	m.moment("status.lastTrigger", &s.LastTrigger)
	m.moment("status.firstSeen", &s.FirstSeen)
	if !s.Load.Valid() {
		m.bad("status.load.value", "%g: want 0 to %g", s.Load.Value, maxLoad)
		s.Load = Load{}
	}
	if o := s.Outcome; o != nil {
		cleanText(m, "status.outcome.error", &o.Error)
		m.moment("status.outcome.at", &o.At)
	}
}

// Reason says in one word why a key changed its owner. The same word stands in the API, the command line, logs and
// metric labels.
type Reason string

// The reasons of moves.
const (
	ReasonCreated   Reason = "Created"   // owned for the first time
	ReasonOrphaned  Reason = "Orphaned"  // its owner died
	ReasonBalance   Reason = "Balance"   // spread
	ReasonDrain     Reason = "Drain"     // its owner is drained
	ReasonShutdown  Reason = "Shutdown"  // its owner is stopping
	ReasonPin       Reason = "Pin"       // pinned elsewhere
	ReasonMove      Reason = "Move"      // moved manually
	ReasonUpgrade   Reason = "Upgrade"   // to a newer revision
	ReasonRestarted Reason = "Restarted" // taken again by the same instance
	ReasonRemoved   Reason = "Removed"   // no longer declared
	ReasonPaused    Reason = "Paused"
	ReasonResumed   Reason = "Resumed" // claimed again after a pause
	ReasonRerun     Reason = "Rerun"   // claimed again since an operator wants it to run again
)
