package status

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// Changes says which changes the listener takes that a page comes from.
type Changes string

// What a listener takes.
const (
	ChangesNone  Changes = "none"  // it only reads
	ChangesOpen  Changes = "open"  // all, without a token
	ChangesToken Changes = "token" // those that come with a token
)

// Access is what the sender of a request may see, and ask for at the listener that it came to. Nil fields set no
// limits.
type Access struct {
	Changes Changes // empty: none
	// Trusted says that who asks has a token, or that the listener needs none for changes. What strangers ask for does
	// not hold them up, and the store is read for them as often as they ask.
	Trusted bool
	Caller  func() (api.Caller, *web.Error) // who asks, or why that is not said; nil: someone without a role
	// Hidden is the answer to who asks for what tasks wrote: their logs. The output and errors of runs, and last
	// errors, are then left out of other answers.
	Hidden *web.Error
	// Allowed is asked while a stream goes on, which ends soon after the first no: a token may be taken back. Other
	// answers are over before that. It is called from many goroutines, also shortly after the answer has ended.
	Allowed func() bool
}

type accessKey struct{}

// Grant is r with this access.
func (a Access) Grant(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), accessKey{}, a))
}

func accessOf(ctx context.Context) Access {
	a, _ := ctx.Value(accessKey{}).(Access)
	a.Changes = cmp.Or(a.Changes, ChangesNone)
	return a
}

// Hidden stands in place of what tasks wrote, and of what says so, where a request may not see it.
const Hidden = "(hidden: it needs a token)"

// NoOutput is the answer to who asks for output at a listener that shows none, whatever the token.
func NoOutput() *web.Error {
	return web.NewError(http.StatusForbidden, api.ReasonForbidden,
		"this listener does not show what tasks write: set server.logs, or ask at admin.listen")
}

// outputHidden says why the request may not see what tasks wrote; nil: it may.
func outputHidden(r *http.Request) *web.Error { return accessOf(r.Context()).Hidden }

// hideText is the text, or what stands in its place.
func hideText(text string, hidden bool) string {
	if hidden && text != "" {
		return Hidden
	}
	return text
}

// saidByTasks are the events whose message is what a task said of its end.
var saidByTasks = []string{snapshot.EventRunFailed, snapshot.EventFailed, snapshot.EventCrashLoop}

// shownTask is the task as the request may see it.
func shownTask(t *api.Task, hidden bool) *api.Task {
	if !hidden || t.LastError == "" {
		return t
	}
	shown := *t
	shown.LastError = Hidden
	return &shown
}

func shownProblem(p *api.Problem, hidden bool) *api.Problem {
	if !hidden || p.Reason != api.ProblemTaskFailing {
		return p
	}
	shown := *p
	shown.Message = Hidden
	return &shown
}

func shownStatus(s *api.Status, hidden bool) *api.Status {
	if !hidden {
		return s
	}
	shown := *s
	shown.Problems = slices.Clone(s.Problems)
	for i := range shown.Problems {
		shown.Problems[i] = *shownProblem(&shown.Problems[i], hidden)
	}
	return &shown
}

func shownEvent(e *api.Event, hidden bool) *api.Event {
	if !hidden || e.Message == "" || !slices.Contains(saidByTasks, e.Type) {
		return e
	}
	shown := *e
	shown.Message = Hidden
	return &shown
}

func shownRuns(runs []api.Run, hidden bool) []api.Run {
	if !hidden {
		return runs
	}
	shown := slices.Clone(runs)
	for i := range shown {
		shown[i].Output = hideText(shown[i].Output, hidden)
		shown[i].Error = hideText(shown[i].Error, hidden)
	}
	return shown
}
