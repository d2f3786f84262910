package record

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Member is what a session says of itself. Its document goes with the session's, under the same ID, because it is
// larger and changes rarely.
type Member struct {
	Session  string         `json:"-"`
	Rev      int64          `json:"-"`
	Instance string         `json:"instance"`
	Caps     map[string]int `json:"caps,omitempty"` // most keys owned, by group; a group left out has no cap
	MaxTasks int            `json:"maxTasks,omitempty"`
	Zone     string         `json:"zone,omitempty"`
	// Labels of the instance; groups select by them.
	Labels map[string]string `json:"labels,omitempty"`
	// Revision of the program or pod template: while two run side by side, keys prefer the newer.
	Revision string `json:"revision,omitempty"`
	Version  string `json:"version,omitempty"`
	Address  string `json:"address,omitempty"` // host:port where other replicas reach its status server
	// AppAddress is the host:port where requests for its keys go; empty: nowhere.
	AppAddress string `json:"appAddress,omitempty"`
	// ListRevision and ListHashes say which task lists it has: a hash by group.
	ListRevision int64             `json:"listRevision,omitempty"`
	ListHashes   map[string]string `json:"listHashes,omitempty"`
	// WeightRevisions say, by group, which published weights it plans with; none for a group that has none.
	WeightRevisions map[string]int64 `json:"weightRevisions,omitempty"`
	// Opened is the store's clock in Unix ms when the process opened its first session.
	Opened  int64 `json:"opened,omitempty"`
	LeaseMS int64 `json:"leaseMs,omitempty"`
	// Problems are what this instance alone can find, for others to show.
	Problems []Problem `json:"problems,omitempty"`
	// Application is the process beside it that runs its tasks with assign; nil: none is configured.
	Application *Application `json:"application,omitempty"`
}

// Application is what an instance knows of the process beside it. Times are Unix ms by the instance's clock.
type Application struct {
	ID       string            `json:"id,omitempty"`       // a UUID of the process; empty: none has called
	PID      int               `json:"pid,omitempty"`      // of the command that the instance has started; 0: none
	Ready    bool              `json:"ready,omitempty"`    // the instance takes keys for it
	Message  string            `json:"message,omitempty"`  // why it is not ready
	Since    int64             `json:"since,omitempty"`    // its first call
	Status   map[string]string `json:"status,omitempty"`   // what it said of itself last
	Stopping map[string]int64  `json:"stopping,omitempty"` // by key: when its time to stop is over
}

// shown says whether a is text that can be shown.
func (a *Application) shown() bool {
	texts := []string{a.ID, a.Message}
	for name, value := range a.Status {
		texts = append(texts, name, value)
	}
	moments := []int64{a.Since}
	for key, by := range a.Stopping {
		texts, moments = append(texts, key), append(moments, by)
	}
	return a.PID >= 0 && !slices.ContainsFunc(texts, func(s string) bool {
		return len(s) > driver.MaxText || !utf8.ValidString(s)
	}) && !slices.ContainsFunc(moments, func(ms int64) bool { return ms < 0 || ms > maxMoment })
}

// clone is a copy that shares no map with a; nil of nil.
func (a *Application) clone() *Application {
	if a == nil {
		return nil
	}
	c := *a
	c.Status, c.Stopping = maps.Clone(a.Status), maps.Clone(a.Stopping)
	return &c
}

// Problem is something wrong with an instance, or with what it runs. Reason is one word. Group and Task, a key, are
// empty when it is about neither.
type Problem struct {
	Reason   string `json:"reason"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Group    string `json:"group,omitempty"`
	Task     string `json:"task,omitempty"`
	Since    int64  `json:"since"` // Unix ms by the instance's clock
}

// shown says whether p is text that can be shown.
func (p Problem) shown() bool {
	for _, text := range []string{p.Reason, p.Severity, p.Message, p.Group, p.Task} {
		if len(text) > driver.MaxText || !utf8.ValidString(text) {
			return false
		}
	}
	return p.Reason != "" && p.Since >= 0 && p.Since <= maxMoment
}

// Client says whether the member declares no groups: it uses locks of its own and takes no part in running tasks.
func (m Member) Client() bool { return len(m.ListHashes) == 0 }

// Doc is m as a document, written by s.
func (m Member) Doc(s driver.WriterID) driver.Doc {
	return driver.Doc{Kind: driver.KindMember, ID: m.Session, Rev: m.Rev, WriterID: s, Body: mustJSON(m)}
}

// MemberFrom reads a member from its document. With an error nothing of it should be relied on: half of its caps
// are none.
func MemberFrom(d driver.Doc) (Member, error) { return Guarded(d, readMember) }

func readMember(d driver.Doc) (Member, error) {
	var m Member
	err := decode(d, &m)
	m.Session, m.Rev = d.ID, d.Rev
	var c cleaner
	cleanText(&c, "instance", &m.Instance)
	c.number("leaseMs", &m.LeaseMS, MaxLease.Milliseconds())
	c.moment("opened", &m.Opened)
	if m.MaxTasks < 0 {
		c.bad("maxTasks", "%d: must not be negative", m.MaxTasks)
	}
	for group, limit := range m.Caps {
		if limit < 0 {
			c.bad("caps", "%.80q: %d: must not be negative", group, limit)
		}
	}
	// They are for people. What cannot be shown must not cost the member its caps.
	m.Problems = slices.DeleteFunc(m.Problems, func(p Problem) bool { return !p.shown() })
	if m.Application != nil && !m.Application.shown() {
		m.Application = nil
	}
	if m.Instance == "" && len(c.errs) == 0 {
		c.bad("instance", "missing")
	}
	return m, c.err(d, err)
}

// Validate says whether a store will take the member.
func (m Member) Validate() error {
	if size := len(mustJSON(m)); size > driver.MaxBody {
		return fmt.Errorf(
			"member: %d bytes of labels, caps, hashes and problems: at most %d are allowed: %w", size, driver.MaxBody,
			driver.ErrTooLarge,
		)
	}
	return nil
}

// Clone is a copy that shares no map or slice with m.
func (m Member) Clone() Member {
	m.Caps, m.Labels, m.ListHashes = maps.Clone(m.Caps), maps.Clone(m.Labels), maps.Clone(m.ListHashes)
	m.WeightRevisions = maps.Clone(m.WeightRevisions)
	m.Problems, m.Application = slices.Clone(m.Problems), m.Application.clone()
	return m
}
