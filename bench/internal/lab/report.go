//go:build linux

package lab

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// NewReport makes a report that prints to out.
func NewReport(out io.Writer) *Report { return &Report{out: out} }

// Report prints figures as they come. It is for one goroutine.
type Report struct {
	// Floor is what the machine and its MongoDB take for the steps that everything is made of.
	Floor Floor

	out    io.Writer
	missed []string
	broken []string
}

// nameWidth aligns the values.
const nameWidth = 44

// Figure prints one figure with its target.
func (r *Report) Figure(name string, ok bool, target, format string, args ...any) {
	verdict := "ok"
	if !ok {
		verdict = "MISSED"
		r.missed = append(r.missed, name)
	}
	fmt.Fprintf(r.out, "%-*s %s (target %s) %s\n", nameWidth, name+":", fmt.Sprintf(format, args...), target, verdict)
}

// Note prints a value that has no target.
func (r *Report) Note(name, format string, args ...any) {
	fmt.Fprintf(r.out, "%-*s %s\n", nameWidth, name+":", fmt.Sprintf(format, args...))
}

// Broke prints what must never be: it makes the program fail.
func (r *Report) Broke(name, format string, args ...any) {
	r.broken = append(r.broken, name)
	fmt.Fprintf(r.out, "%-*s BROKEN %s\n", nameWidth, name+":", fmt.Sprintf(format, args...))
}

// Broken says whether anything was that must never be.
func (r *Report) Broken() bool { return len(r.broken) > 0 }

// Text prints lines as they are, set apart.
func (r *Report) Text(text string) { fmt.Fprintf(r.out, "\n%s\n\n", strings.TrimSpace(text)) }

// Sum closes the report.
func (r *Report) Sum() {
	if len(r.missed) > 0 {
		r.Note("missed", "%s", strings.Join(r.missed, ", "))
	}
	if len(r.broken) > 0 {
		r.Note("broken", "%s", strings.Join(r.broken, ", "))
	}
}

// Durations shows the spread of some durations, and their p99 as a multiple of the baseline.
func (r *Report) Durations(all []time.Duration) string {
	return fmt.Sprintf("p50 %s, p99 %s, max %s, n=%d, p99 = %s",
		MS(history.Percentile(all, 50)), MS(history.Percentile(all, 99)), MS(history.Percentile(all, 100)), len(all),
		r.Floor.Times(history.Percentile(all, 99)))
}

// MS shows a duration in milliseconds with a precision that can be trusted.
func MS(d time.Duration) string {
	v := float64(d) / float64(time.Millisecond)
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f ms", v)
	case v < 100:
		return fmt.Sprintf("%.1f ms", v)
	}
	return fmt.Sprintf("%.0f ms", v)
}

// Multiple is a/b with two digits, as people write it.
func Multiple(a, b float64) string {
	x := a / b
	if x >= 10 {
		digits := math.Pow(10, math.Floor(math.Log10(x))-1)
		return fmt.Sprintf("%.0f", math.Round(x/digits)*digits)
	}
	return fmt.Sprintf("%.2g", x)
}
