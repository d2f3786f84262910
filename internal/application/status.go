package application

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Status is what is known of the application, for people.
type Status struct {
	App      string    `json:"app"`   // its uuid; empty: there is none
	Ready    bool      `json:"ready"` // it is given keys
	Since    time.Time `json:"since"` // its first call
	LastCall time.Time `json:"lastCall"`
	// Reported is what it said of itself last: at most maxReported entries, truncated to maxReportedText.
	Reported map[string]string `json:"status"`
	// Stopping are the keys that it has to stop, and when their time is over.
	Stopping map[string]time.Time `json:"stopping"`
	// Unknown are keys that it says it runs, and that it may not run.
	Unknown []string `json:"unknown"`
	// Refused is the first other process that called meanwhile; empty: none has.
	Refused string `json:"refused"`

	reportedReady bool
	paused        bool // see protocol.AppPause
	silent        bool // it has not called for as long as it might run
}

// Why an application is given no keys, in one word.
const (
	ReasonNotCalled = "NotCalled"
	ReasonNotReady  = "NotReady"
	ReasonSilent    = "Silent"
	ReasonLeaseLost = replica.ReasonLeaseLost // the application may be well
	ReasonEnded     = "Ended"                 // its command
)

// NotReady says why the application is given no keys, when it listens at an address; empty: it is given some.
func (s *Status) NotReady(address string) (reason, message string) {
	switch {
	case s.Ready:
		return "", ""
	case s.App == "":
		return ReasonNotCalled, "none has called at " + address
	case !s.reportedReady:
		return ReasonNotReady, "it says that it is not ready"
	case s.paused:
		return ReasonNotReady, "it turned not ready less than " + protocol.AppPause.String() + " ago"
	case s.silent:
		return ReasonSilent, "it has not called since " + s.LastCall.UTC().Format(time.RFC3339)
	}
	return ReasonLeaseLost, errLease.Error()
}

// What is kept of what an application says of itself.
const (
	maxReported     = 16
	maxReportedText = 256 // bytes of a name or a value
)

// bounded is what is kept of a map: the first entries by name.
func bounded(reported map[string]string) map[string]string {
	kept := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(reported)) {
		if len(kept) == maxReported {
			break
		}
		kept[truncate(name)] = truncate(reported[name])
	}
	return kept
}

func truncate(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxReportedText)], "") }

// record keeps what a call says, for people and for the runs.
func (h *Hub) record(req *Request, listed listing) {
	if h.app.Application() != req.App {
		if h.latest.Refused == "" {
			h.latest.Refused = req.App
		}
		return
	}
	if listed.id != "" {
		h.listed = listed
	}
	if h.latest.App != req.App {
		h.latest = Status{App: req.App, Since: time.Now()}
	}
	h.latest.LastCall, h.latest.reportedReady, h.latest.Reported = time.Now(), req.Ready, bounded(req.Status)
	for key, load := range req.Load {
		if k := elect.Key(key); h.cfg.Load != nil && h.keys[k] != nil {
			h.cfg.Load(k, load)
		}
	}
	if req.Same != "" {
		return
	}
	h.latest.Unknown = nil
	for key, token := range h.listed.running {
		a := h.keys[elect.Key(key)]
		switch {
		case a == nil || a.Token != token:
			h.latest.Unknown = append(h.latest.Unknown, key)
		case a.running != nil:
			a.running()
			a.running = nil
		}
	}
	slices.Sort(h.latest.Unknown)
}

// Status is what is known of the application.
func (h *Hub) Status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.status()
	if s.App == "" {
		return s
	}
	s.Stopping = map[string]time.Time{}
	h.app.Each(func(key string, _ int64, assigned bool) {
		if !assigned {
			s.Stopping[key] = h.keys[elect.Key(key)].stopBy
		}
	})
	return s
}

// status is Status without Stopping.
func (h *Hub) status() Status {
	if h.app.Application() == "" {
		return Status{}
	}
	s, now := h.latest, h.cfg.Clock.Now()
	s.Ready, s.paused = h.app.Capacity(now), h.app.Paused(now)
	// One that goes on calling is not silent while the lease of the replica is over.
	s.silent = h.app.Remains(now) == 0 && time.Since(s.LastCall) > 4*h.cfg.MaxWait
	return s
}

// notify calls Changed when it has to know.
func (h *Hub) notify() {
	s := h.status()
	reason, _ := s.NotReady("")
	if is := [3]string{s.App, s.Refused, reason}; is != h.notified {
		h.notified = is
		h.cfg.Changed()
	}
}
