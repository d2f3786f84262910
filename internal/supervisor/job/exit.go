package job

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// exit is why a job ends, and what follows.
type exit struct {
	stop   error       // why it has to end; nil: it need not
	next   *tasks.Task // what it begins again as; nil: it does not
	result error       // why it leaves
}

// wanted reports whether the job is to end, for good or to begin again.
func (e *exit) wanted() bool { return e.stop != nil || e.next != nil }

// why returns why the job is to end; nil if it is not.
func (e *exit) why() error {
	if e.stop == nil && e.next != nil {
		return errChanged
	}
	return e.stop
}

// done takes that nothing is left. It returns what the job begins again as, or why it is over.
func (e *exit) done() (next *tasks.Task, over error) {
	switch changed := errors.Is(e.result, errChanged); {
	case changed && e.stop == nil:
		next = e.next
		e.next, e.result = nil, nil
		return next, nil
	case changed:
		return nil, e.stop
	default:
		return nil, e.result
	}
}
