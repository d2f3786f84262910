package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

func runColumns() []column[api.Run] {
	type T = api.Run
	return []column[T]{
		{title: "scheduled", cell: func(_ *view, r *T) string { return orDash(r.ScheduledAt.String()) }},
		{title: "started", cell: func(_ *view, r *T) string { return orDash(r.StartedAt.String()) }},
		{title: "took", keep: keepUseful, right: true, cell: took},
		{title: "result", keep: keepState, cell: func(v *view, r *T) string { return v.runResult(r.Result) }},
		{title: "exit", right: true, cell: func(_ *view, r *T) string { return exitText(r) }},
		{title: "attempt", right: true, cell: func(_ *view, r *T) string { return orDash(positive(r.Attempt)) }},
		{title: "instance", keep: keepUseful, cell: func(_ *view, r *T) string { return orDash(r.Instance) }},
		{title: "token", wide: true, right: true, cell: func(_ *view, r *T) string { return number(r.FencingToken) }},
		{title: "error", prose: true, keep: keepReason, cell: func(_ *view, r *T) string { return orDash(r.Error) }},
	}
}

// took is how long a run took, or goes on for.
func took(v *view, r *api.Run) string {
	switch {
	case r.StartedAt.IsZero():
		return "-"
	case r.EndedAt.IsZero() && r.Result == "Running":
		return span(v.now.Sub(r.StartedAt.Time))
	case r.EndedAt.IsZero():
		return "-"
	}
	if d := r.EndedAt.Sub(r.StartedAt.Time); d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return span(r.EndedAt.Sub(r.StartedAt.Time))
}

func exitText(r *api.Run) string {
	if r.Result != "Succeeded" && r.Result != "Failed" {
		return "-"
	}
	return strconv.Itoa(r.ExitCode)
}

func (v *view) runResult(word string) string {
	code := ""
	switch word {
	case "Succeeded":
		code = "32"
	case "Failed", "TimedOut":
		code = "31"
	case "Interrupted", "Skipped", "Running":
		code = "33"
	}
	return v.paint(code, plainText(word))
}
