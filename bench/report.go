//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// report prints figures as they come. It is for one goroutine.
type report struct {
	out    io.Writer
	base   baseline
	missed []string
	broken []string
}

// nameWidth aligns the values.
const nameWidth = 44

// figure prints one figure with its target.
func (r *report) figure(name string, ok bool, target, format string, args ...any) {
	verdict := "ok"
	if !ok {
		verdict = "MISSED"
		r.missed = append(r.missed, name)
	}
	fmt.Fprintf(r.out, "%-*s %s (target %s) %s\n", nameWidth, name+":", fmt.Sprintf(format, args...), target, verdict)
}

// note prints a value that has no target.
func (r *report) note(name, format string, args ...any) {
	fmt.Fprintf(r.out, "%-*s %s\n", nameWidth, name+":", fmt.Sprintf(format, args...))
}

// broke prints what must never be: it makes the program fail.
func (r *report) broke(name, format string, args ...any) {
	r.broken = append(r.broken, name)
	fmt.Fprintf(r.out, "%-*s BROKEN %s\n", nameWidth, name+":", fmt.Sprintf(format, args...))
}

// sum closes the report.
func (r *report) sum() {
	if len(r.missed) > 0 {
		r.note("missed", "%s", strings.Join(r.missed, ", "))
	}
	if len(r.broken) > 0 {
		r.note("broken", "%s", strings.Join(r.broken, ", "))
	}
}

// durations shows the spread of some durations, and their p99 as a multiple of the baseline.
func (r *report) durations(all []time.Duration) string {
	return fmt.Sprintf("p50 %s, p99 %s, max %s, n=%d, p99 = %s",
		ms(history.Percentile(all, 50)), ms(history.Percentile(all, 99)), ms(history.Percentile(all, 100)), len(all),
		r.base.times(history.Percentile(all, 99)))
}

// ms shows a duration in milliseconds with a precision that can be trusted.
func ms(d time.Duration) string {
	v := float64(d) / float64(time.Millisecond)
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f ms", v)
	case v < 100:
		return fmt.Sprintf("%.1f ms", v)
	}
	return fmt.Sprintf("%.0f ms", v)
}
