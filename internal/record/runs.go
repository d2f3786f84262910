package record

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Limits of what is kept of a task's runs.
const (
	MaxRuns    = 10       // of a task
	MaxSkipped = 3        // of these, ticks that were skipped
	MaxOutput  = 2 << 10  // bytes of the output of one run
	maxAll     = 32 << 10 // bytes of the document's body
)

// runsPrefix begins the IDs of values that hold runs. No group's name begins so.
const runsPrefix = "~runs/"

// RunResult is how a run ended. The same word stands in the API and the command line.
type RunResult string

// The results of runs.
const (
	RunRunning   RunResult = "Running" // it goes on: never stored
	RunSucceeded RunResult = "Succeeded"
	RunFailed    RunResult = "Failed"
	RunTimedOut  RunResult = "TimedOut" // it took longer than its timeout
	// RunInterrupted was cut off: its key was released or lost, or the next tick took its place
	RunInterrupted RunResult = "Interrupted"
	RunSkipped     RunResult = "Skipped" // the run before it still went
)

// Run is one run of a task with ticks, or of one that may end for good. Times are Unix ms by the clock of the replica
// that ran it.
type Run struct {
	Tick     int64     `json:"tick,omitempty"` // that it was for; 0 for a task without ticks
	Start    int64     `json:"start,omitempty"`
	End      int64     `json:"end,omitempty"` // 0: not known, it was cut off by the end of its replica
	Result   RunResult `json:"result"`
	ExitCode int       `json:"exitCode,omitempty"`
	Error    string    `json:"error,omitempty"`
	Attempt  int       `json:"attempt,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Token    int64     `json:"token,omitempty"`
	Output   string    `json:"output,omitempty"` // its last lines, if it failed
}

// same says whether two records are of one run.
func (r Run) same(other Run) bool {
	return r.Tick == other.Tick && r.Token == other.Token && r.Attempt == other.Attempt && r.Result == other.Result &&
		r.Instance == other.Instance && r.Start == other.Start
}

// guessed says that another than who ran it noted the run.
func (r Run) guessed() bool { return r.End == 0 && r.Result == RunInterrupted }

// Runs are the newest runs of one task, the newest first.
type Runs struct {
	Key  Key
	Rev  int64
	List []Run
}

// RunsID names the document of a key's runs.
func RunsID(key Key) string { return runsPrefix + string(key) }

// Add takes one more run. To add one twice changes nothing.
func (r *Runs) Add(run Run) {
	run.Error, run.Output = clipTail(run.Error, driver.MaxText), clipTail(run.Output, MaxOutput)
	for i, known := range r.List {
		switch {
		case known.same(run):
			return
		case run.guessed() && known.Tick == run.Tick && known.Instance == run.Instance && known.End >= run.Start:
			return // who ran it has noted its end
		case known.guessed() && known.Tick == run.Tick && known.Instance == run.Instance && run.End >= known.Start &&
			run.Start <= known.Start:
			r.List = slices.Delete(r.List, i, i+1)
			r.Add(run)
			return
		}
	}
	r.List = append(r.List, run)
	slices.SortStableFunc(r.List, func(a, b Run) int { return cmp.Compare(b.moment(), a.moment()) })
	r.trim()
}

// MovedTo dates a run as if it had begun now, Unix ms by the replica's clock, where it is [Ahead] of that. It reports
// whether it was.
func (r Run) MovedTo(now int64) (Run, bool) {
	by := r.moment() - now
	if !Ahead(r.moment(), now) {
		return r, false
	}
	for _, ms := range []*int64{&r.Tick, &r.Start, &r.End} {
		if *ms > 0 {
			*ms = max(1, *ms-by)
		}
	}
	return r, true
}

func (r Run) moment() int64 { return cmp.Or(r.Start, r.Tick) }

// trim drops the oldest of too many; ticks that were skipped give way first.
func (r *Runs) trim() {
	skipped := 0
	r.List = slices.DeleteFunc(r.List, func(run Run) bool {
		if run.Result == RunSkipped {
			skipped++
		}
		return run.Result == RunSkipped && skipped > MaxSkipped
	})
	r.List = r.List[:min(len(r.List), MaxRuns)]
	for i := len(r.List) - 1; i >= 0 && len(mustJSON(r.List)) > maxAll; i-- {
		r.List[i].Output = "" // of the oldest first
	}
	for i := len(r.List) - 1; i >= 0 && len(mustJSON(r.List)) > maxAll; i-- {
		r.List[i].Error = "" // of letters that JSON writes as six bytes each
	}
}

type runsBody struct {
	Runs []Run `json:"runs"`
}

// Doc is r as a document, written under id.
func (r Runs) Doc(id driver.WriterID) driver.Doc {
	return driver.Doc{
		Kind: driver.KindValue, ID: RunsID(r.Key), Group: strings.TrimSuffix(runsPrefix, "/"), Rev: r.Rev, WriterID: id,
		Body: mustJSON(runsBody{r.List}),
	}
}

// RunsFrom reads the runs of a key from their document. What makes no sense is left out, and is an error next to the
// rest.
func RunsFrom(d driver.Doc) (Runs, error) { return Guarded(d, readRuns) }

func readRuns(d driver.Doc) (Runs, error) {
	var b runsBody
	err := decode(d, &b)
	var m cleaner
	r := Runs{Key: Key(strings.TrimPrefix(d.ID, runsPrefix)), Rev: d.Rev}
	for _, run := range b.Runs[:min(len(b.Runs), MaxRuns)] {
		cleanText(&m, "error", &run.Error)
		cleanText(&m, "instance", &run.Instance)
		m.moment("tick", &run.Tick)
		m.moment("start", &run.Start)
		m.moment("end", &run.End)
		m.number("token", &run.Token, driver.MaxRev)
		if len(run.Output) > MaxOutput || !utf8.ValidString(run.Output) {
			m.bad("output", "%d bytes, want at most %d, as UTF-8", len(run.Output), MaxOutput)
			run.Output = ""
		}
		r.List = append(r.List, run)
	}
	return r, m.err(d, err)
}

// clipTail keeps the end of a text, from the beginning of a letter on.
func clipTail(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	start := len(text) - limit
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}
