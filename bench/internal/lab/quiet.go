//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/testprocess"
)

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
