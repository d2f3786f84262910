package guard

import "github.com/go-logr/logr"

// note is a line for the log.
type note struct {
	level  level
	text   string
	values []any
}

// level is how much a line of the log matters.
type level uint8

const (
	levelInfo level = iota
	levelDebug
	levelError
)

// journal writes the guard's log. Noting a line never waits: the guard's deadlines do not depend on who reads its log.
type journal struct {
	log   logr.Logger
	notes chan note
}

func newJournal(log logr.Logger) *journal { return &journal{log, make(chan note, 256)} }

// add has a line written, or drops it when too many wait.
func (j *journal) add(n note) {
	select {
	case j.notes <- n:
	default:
	}
}

// write writes lines until close.
func (j *journal) write() {
	for n := range j.notes {
		switch n.level {
		case levelError:
			j.log.Error(nil, n.text, n.values...)
		case levelDebug:
			j.log.V(1).Info(n.text, n.values...)
		case levelInfo:
			j.log.Info(n.text, n.values...)
		}
	}
}

func (j *journal) close() { close(j.notes) }
