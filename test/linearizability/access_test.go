package linearizability

import (
	"fmt"
	"math"

	"github.com/anishathalye/porcupine"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// forever is the end of what may happen at any time from now on.
const forever = math.MaxInt64

// verb is what a client asked of a document.
type verb string

const (
	reads      verb = "read"
	lists      verb = "list"
	puts       verb = "put"
	drops      verb = "delete"
	increments verb = "increment"
)

// access is one thing that one client did with one document, and what the answer was. A write that was repeated because
// its outcome was unknown is one access, from the first try to the last. It happens once at most, for no revision comes
// again. But where documents are deleted, a creation that arrives late brings all its revisions back: there each try is
// an access.
type access struct {
	client          int
	verb            verb
	alone           bool  // each try is an access
	call, last, end int64 // of the first try, of the last one, and the last reply
	tries           int
	change          driver.Change // of puts and drops
	status          driver.Status // of puts, drops and increments
	found           *driver.Doc   // as shown; nil: absent
	shown           bool          // found was shown
	lineage         string        // of writes, as the reply names it; empty in stores that lose none
}

// problem is what contradicts the store's contract in this access alone.
func (a access) problem() string {
	c := a.change
	condition := step{ifRev: c.IfRev}
	switch {
	case a.verb != puts && a.verb != drops:
		return ""
	case a.status == driver.Refused && condition.holds(versionOf(a.found)):
		return "refused, and the document as found meets the condition"
	case a.status == driver.Refused && a.found == nil:
		return "refused, and no document as found"
	case a.status == driver.Refused && a.found.WriterID == c.Doc.WriterID:
		return "refused, and the document as found is what it wrote"
	case a.status == driver.Overtaken && a.verb == puts && a.found != nil && a.found.Rev <= c.Doc.Rev:
		return "overtaken, and the document as found cannot have come after it"
	}
	return ""
}

// written is what the access would make of the document.
func (a access) written() version { return versionOf(&a.change.Doc) }

func (a access) String() string {
	text := string(a.verb)
	switch a.verb {
	case puts:
		text += fmt.Sprintf(" at rev %d %v", a.change.IfRev, a.written())
	case drops:
		text += fmt.Sprintf(" at rev %d", a.change.IfRev)
	case reads, lists, increments:
	}
	if a.tries > 1 {
		text += fmt.Sprintf(" in %d tries, the last after %s", a.tries, since(a.call, a.last))
	}
	if a.verb != reads && a.verb != lists {
		text += ": " + statusName(a.status)
	}
	switch {
	case !a.shown:
	case a.found != nil && a.found.Kind == driver.KindGroup:
		text += fmt.Sprintf(", shows %d", a.found.Count)
	default:
		text += ", shows " + versionOf(a.found).String()
	}
	return text
}

func statusName(s driver.Status) string {
	switch s {
	case driver.Applied:
		return "applied"
	case driver.Refused:
		return "refused"
	case driver.Overtaken:
		return "overtaken"
	default:
		return "unknown"
	}
}

// documentSteps is what a history of one document says happened, for porcupine. freshLists says that lists are never
// stale.
func documentSteps(history []access, freshLists bool) []porcupine.Operation {
	var ops []porcupine.Operation
	seen := firstSeen(history)
	for _, a := range history {
		add := func(call, end int64, s step) {
			ops = append(ops, porcupine.Operation{ClientId: a.client, Input: s, Call: call, Return: end})
		}
		if a.shown && (a.verb != lists || freshLists) {
			add(a.last, a.end, step{act: shows, version: versionOf(a.found)})
		}
		s := step{ifRev: a.change.IfRev, version: a.written()}
		switch a.verb {
		case puts:
			if call, end, act, happened := a.writing(seen); happened {
				s.act = act
				add(call, end, s)
			}
		case drops:
			s.version = absent
			switch a.status {
			case driver.Applied:
				s.act = removes
				add(a.call, a.end, s)
			case driver.Unknown:
				s.act = mayRemove
				add(a.call, forever, s)
			case driver.Overtaken:
				s.act = mayRemove
				add(a.call, a.end, s)
			case driver.Refused:
				if a.tries > 1 { // an earlier try may have removed it, before somebody else created it again
					s.act = mayRemove
					add(a.call, a.end, s)
				}
			}
		case reads, lists, increments:
		}
	}
	return ops
}

// writing is when a put may have happened, and whether it matters. What was not applied for sure and was never seen by
// anybody has no consequence.
func (a access) writing(seen map[driver.WriterID]int64) (call, end int64, act act, happened bool) {
	first, ever := seen[a.change.Doc.WriterID]
	switch a.status {
	case driver.Applied:
		if a.alone {
			return a.call, a.end, repeats, true
		}
		return a.call, a.end, writes, true
	case driver.Overtaken, driver.Unknown:
		if a.alone {
			return a.call, forever, mayWrite, ever
		}
		return a.call, max(first, a.call), writes, ever
	case driver.Refused:
	}
	return 0, 0, 0, false
}

// firstSeen is when the first reply came that shows each write's version.
func firstSeen(history []access) map[driver.WriterID]int64 {
	seen := map[driver.WriterID]int64{}
	note := func(s driver.WriterID, at int64) {
		if first, ok := seen[s]; !ok || at < first {
			seen[s] = at
		}
	}
	for _, a := range history {
		if a.shown && a.found != nil {
			note(a.found.WriterID, a.end)
		}
		if a.verb == puts && a.status == driver.Applied {
			note(a.change.Doc.WriterID, a.end)
		}
	}
	return seen
}

// counterSteps is what a history of a group's counter says happened.
func counterSteps(history []access, freshLists bool) []porcupine.Operation {
	var ops []porcupine.Operation
	for _, a := range history {
		op := porcupine.Operation{ClientId: a.client, Call: a.call, Return: a.end}
		switch {
		case a.verb == increments:
			op.Input = counterStep{raise: true}
			if a.status != driver.Applied {
				op.Return = forever
			}
		case a.verb == lists && !freshLists:
			continue
		default:
			s := counterStep{}
			if a.found != nil {
				s.count = a.found.Count
			}
			op.Input = s
		}
		ops = append(ops, op)
	}
	return ops
}
