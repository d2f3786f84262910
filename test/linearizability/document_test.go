package linearizability

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// version is one state of a document. The writer ID names the write that made it; the zero version is an absent
// document.
type version struct {
	Rev    int64
	Writer driver.WriterID
}

var absent version

func (v version) String() string {
	if v == absent {
		return "nothing"
	}
	return fmt.Sprintf("rev %d of %s/%d", v.Rev, v.Writer.Session, v.Writer.Seq)
}

func versionOf(d *driver.Doc) version {
	if d == nil {
		return absent
	}
	return version{d.Rev, d.WriterID}
}

// act is what a step does to a document.
type act uint8

const (
	shows     act = iota // somebody was informed that this version is current
	writes               // the write happened
	repeats              // the write happened, or was there already
	mayWrite             // it happened if its condition held when it arrived
	removes              // the removal happened
	mayRemove            // it happened if its condition held when it arrived
	nothing              // it does not concern the document
)

// step is what porcupine puts in order: one thing that happened to one document, at one moment.
type step struct {
	act     act
	ifRev   int64   // the condition; 0: absent
	version version // shown, or written
}

// holds says whether a document in state v meets the condition of s.
func (s step) holds(v version) bool {
	if s.ifRev == 0 {
		return v == absent
	}
	return v.Rev == s.ifRev
}

// after is the document's state after s, and whether s is possible at all when it is v.
func (s step) after(v version) (bool, version) {
	switch s.act {
	case nothing:
		return true, v
	case shows:
		return v == s.version, v
	case writes:
		return s.holds(v), s.version
	case repeats:
		return v == s.version || s.holds(v), s.version
	case mayWrite:
		if s.holds(v) {
			return true, s.version
		}
		return true, v
	case removes:
		return s.holds(v), absent
	case mayRemove:
		if s.holds(v) {
			return true, absent
		}
		return true, v
	}
	return false, v
}

func (s step) String() string {
	switch s.act {
	case shows:
		return "shows " + s.version.String()
	case writes:
		return fmt.Sprintf("at rev %d writes %v", s.ifRev, s.version)
	case repeats:
		return fmt.Sprintf("at rev %d writes, or wrote, %v", s.ifRev, s.version)
	case mayWrite:
		return fmt.Sprintf("at rev %d may write %v", s.ifRev, s.version)
	case removes:
		return fmt.Sprintf("removes rev %d", s.ifRev)
	case mayRemove:
		return fmt.Sprintf("may remove rev %d", s.ifRev)
	case nothing:
		return "another lineage may begin"
	}
	return "?"
}

// documentModel is one versioned document.
var documentModel = porcupine.Model{
	Init: func() any { return absent },
	Step: func(state, input, _ any) (bool, any) {
		ok, next := input.(step).after(state.(version))
		return ok, next
	},
	DescribeOperation: func(input, _ any) string { return input.(step).String() },
	DescribeState:     func(state any) string { return state.(version).String() },
}

// counterStep is one thing that happened to a group's counter.
type counterStep struct {
	raise bool
	count int64 // as shown
}

// counterModel is a group's counter. A raise of unknown outcome that never happened is one that happens at the very
// end.
var counterModel = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		count, s := state.(int64), input.(counterStep)
		if s.raise {
			return true, count + 1
		}
		return count == s.count, count
	},
	DescribeOperation: func(input, _ any) string {
		if s := input.(counterStep); !s.raise {
			return fmt.Sprintf("shows %d", s.count)
		}
		return "raise"
	},
	DescribeState: func(state any) string { return fmt.Sprint(state) },
}
