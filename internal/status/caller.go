package status

import (
	"context"
	"net/http"
	"slices"

	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/pkg/api"
)

type callerKey struct{}

// callerOf says who sent a request, or why that is not said.
type callerOf func(*http.Request) (api.Caller, *httperr.Error)

// WithCaller has next say at /api/v1/whoami what of says of the request.
func WithCaller(next http.Handler, of func(*http.Request) (api.Caller, *httperr.Error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, callerOf(of))))
	})
}

// whoami answers with who asks.
func whoami(w http.ResponseWriter, r *http.Request) *Error {
	caller := api.Caller{Role: api.RoleNone}
	if of, ok := r.Context().Value(callerKey{}).(callerOf); ok {
		var bad *Error
		if caller, bad = of(r); bad != nil {
			return bad
		}
	}
	writeJSON(w, caller)
	return nil
}

// Changes says which changes the listener takes that a page comes from.
type Changes string

// What a listener takes.
const (
	ChangesNone  Changes = "none"  // it only reads
	ChangesOpen  Changes = "open"  // all, without a token
	ChangesToken Changes = "token" // those that come with a token
)

type changesKey struct{}

// TakenBy is what the listener takes that the request came to.
func TakenBy(r *http.Request) Changes {
	if takes, ok := r.Context().Value(changesKey{}).(Changes); ok {
		return takes
	}
	return ChangesNone
}

// WithChanges has pages that next serves say which changes their listener takes.
func WithChanges(next http.Handler, takes Changes) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), changesKey{}, takes)))
	})
}

type allowedKey struct{}

// WhileAllowed is r, whose stream ends soon after allowed begins to say no: a token may be taken back while it is read.
// Other answers are over before that. allowed is called from many goroutines, also shortly after the answer has ended.
func WhileAllowed(r *http.Request, allowed func() bool) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), allowedKey{}, allowed))
}

// Hidden stands in place of what tasks wrote, and of what says so, where a request may not see it.
const Hidden = "(hidden: it needs a token)"

type hiddenKey struct{}

// HideOutput has next leave out what tasks wrote: their logs, the output and errors of runs, and last errors. why is
// the answer to who asks for logs.
func HideOutput(next http.Handler, why *Error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), hiddenKey{}, why)))
	})
}

// NoOutput is the answer to who asks for output at a listener that shows none, whatever the token.
func NoOutput() *Error {
	return httperr.New(http.StatusForbidden, api.ReasonForbidden,
		"this listener does not show what tasks write: set server.logs, or ask at admin.listen")
}

// outputHidden says why the request may not see what tasks wrote; nil: it may.
func outputHidden(r *http.Request) *Error {
	why, _ := r.Context().Value(hiddenKey{}).(*Error)
	return why
}

// hideText is the text, or what stands in its place.
func hideText(text string, hidden bool) string {
	if hidden && text != "" {
		return Hidden
	}
	return text
}

// The types of events about tasks that end badly. Their messages hold the error.
const (
	EventRunFailed = "RunFailed" // the last try of a tick failed
	EventFailed    = "Failed"    // a task failed for good
	EventCrashLoop = "CrashLoop" // a task ends again and again
)

// saidByTasks are the events whose message is what a task said of its end.
var saidByTasks = []string{EventRunFailed, EventFailed, EventCrashLoop}

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
