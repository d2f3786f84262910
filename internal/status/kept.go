package status

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// output is a part of what a task wrote. The header says which, and on which instance.
type output struct {
	text   string
	header http.Header
}

// outputHeaders are those of an output that another replica gives.
var outputHeaders = []string{
	api.LogPositionHeader, api.LogInstanceHeader, api.LogTokenHeader, api.LogEndedHeader,
}

func (o output) write(w http.ResponseWriter) {
	for _, name := range outputHeaders {
		if value := o.header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	writeText(w, o.text)
}

// kept is what this replica keeps of the task's output. What it wrote here before others ran it does not count, unless
// the query asks for this instance.
func (l taskLogs) kept(s *Snapshot, t *api.Task, q api.LogOptions) (output, bool) {
	instance := s.Status.Instance
	if l.here == nil || q.Instance != "" && q.Instance != instance {
		return output{}, false
	}
	kept, ok := l.here.Output(t.Key)
	if !ok || !kept.Held && kept.Token < t.FencingToken && q.Instance == "" {
		return output{}, false
	}
	process := instance
	if i := s.Instance(instance); i != nil {
		process += "@" + strconv.FormatInt(i.StartedAt.UnixMilli(), 10)
	}
	var last uint64
	if n := len(kept.Lines); n > 0 {
		last = kept.Lines[n-1].Seq
	}
	header := http.Header{}
	header.Set(api.LogPositionHeader, process+"#"+strconv.FormatUint(last, 10))
	header.Set(api.LogInstanceHeader, instance)
	header.Set(api.LogTokenHeader, strconv.FormatInt(kept.Token, 10))
	if !kept.Held {
		header.Set(api.LogEndedHeader, "true")
	}
	return output{joined(selected(&kept, q, process, last), q.Timestamps), header}, true
}

// selected are the lines of the run before the newest, or those after a position, or all since the task was claimed
// here last. A position of another process, or of one that has started again, says nothing about this one.
func selected(kept *tasks.Output, q api.LogOptions, process string, last uint64) []tasks.Line {
	before, n := splitPosition(q.After)
	var wanted func(tasks.Line) bool
	switch {
	case q.Previous:
		var previous int64
		for _, line := range kept.Lines {
			if line.Token < kept.Token {
				previous = max(previous, line.Token)
			}
		}
		wanted = func(line tasks.Line) bool { return line.Token == previous && previous > 0 }
	case before == process && n <= last:
		wanted = func(line tasks.Line) bool { return line.Seq > n }
	default:
		wanted = func(line tasks.Line) bool { return line.Token >= kept.Claim }
	}
	lines := slices.DeleteFunc(kept.Lines, func(line tasks.Line) bool { return !wanted(line) })
	return lines[max(0, len(lines)-q.Tail):]
}

// joined is the text of lines, each with its time where that is wanted.
func joined(lines []tasks.Line, timestamps bool) string {
	var text strings.Builder
	for _, line := range lines {
		if timestamps {
			text.WriteString(line.Time.UTC().Format(time.RFC3339Nano) + " ")
		}
		text.WriteString(line.Text + "\n")
	}
	return text.String()
}

// splitPosition reads a position: the process that kept the output, empty for none, and how many lines it had kept.
func splitPosition(position string) (process string, lines uint64) {
	i := strings.LastIndex(position, "#")
	if i < 0 {
		return "", 0
	}
	n, err := strconv.ParseUint(position[i+1:], 10, 64)
	if err != nil {
		return "", 0
	}
	return position[:i], n
}

// ProcessOf says which process kept the output that ends at the position; empty: not known.
func ProcessOf(position string) string {
	process, _ := splitPosition(position)
	return process
}
