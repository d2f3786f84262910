//go:build linux

package lab

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/testprocess"
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

// maxLoad is the load from which on a machine is too busy for figures that go into a page.
const maxLoad = 0.5

// Load is how many processes wanted a CPU in the last minute, "?" where it is not known. Figures of a busy machine say
// little.
func Load() string {
	data, err := os.ReadFile("/proc/loadavg")
	first, _, ok := strings.Cut(string(data), " ")
	if err != nil || !ok {
		return "?"
	}
	return first
}

// Quiet says how quiet the machine is while something is measured. It is begun before everything else.
type Quiet struct {
	Began time.Time
	Load  string // at the beginning

	stalls *testprocess.Stalls
}

// NewQuiet begins a measurement, until Close.
func NewQuiet() *Quiet {
	return &Quiet{Began: time.Now(), Load: Load(), stalls: testprocess.NewStalls()}
}

// Part begins the measurement of a part, until its Close. Its load is that of the whole, which nothing had raised yet.
func (q *Quiet) Part() *Quiet {
	p := NewQuiet()
	p.Load = q.Load
	return p
}

// Close ends it.
func (q *Quiet) Close() { q.stalls.Close() }

// Stood is the fraction of the time in which the machine stood still, since the beginning.
func (q *Quiet) Stood() float64 { return float64(q.stalls.Stood()) / float64(time.Since(q.Began)) }

// String is for the lines of figures.
func (q *Quiet) String() string {
	return fmt.Sprintf("load %s at the start, machine stood still for %s of the time", q.Load, percent(q.Stood()))
}

// Measured are the sentences that stand above a table: when, on what, and how quiet that was.
func (q *Quiet) Measured() string {
	return fmt.Sprintf("Measured in one run of %.0f min on %s, %d CPUs, %s, load %s at the start. The machine\n"+
		"stood still for %s of the time.", time.Since(q.Began).Minutes(), q.Began.Format("2 January 2006"),
		runtime.NumCPU(),
		runtime.Version(), q.Load, percent(q.Stood()))
}

func percent(fraction float64) string { return fmt.Sprintf("%.1f %%", 100*fraction) }

// MayWrite refuses figures for a page that were not measured on a quiet machine, or not in full.
func (e Effort) MayWrite(load string) error {
	if e.Quick {
		return errors.New("-write refuses -quick: a page has the figures of a full run")
	}
	if is, err := strconv.ParseFloat(load, 64); err != nil || is >= maxLoad {
		return fmt.Errorf("-write refuses load %s at the start: less than %.1f is allowed", load, maxLoad)
	}
	return nil
}
