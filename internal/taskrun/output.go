package taskrun

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Stream names one of the two outputs of a command.
type Stream string

// The outputs of a command.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Sink gets what commands write, line by line, without the line end; lines over 64 KiB come in pieces, cut between
// characters. Calls for one stream of a key are in order. A call that does not return holds up the command, once its
// pipe is full, and nothing else: nothing is dropped.
type Sink interface {
	Line(key elect.Key, stream Stream, line string)
}

// Line is a line that a command wrote.
type Line struct {
	Seq    uint64 // counts the task's lines from 1, without gaps
	Time   time.Time
	Token  int64 // fencing token of the start that wrote it
	Stream Stream
	Text   string
}

// Output is what one replica keeps of what a task wrote there.
type Output struct {
	Held  bool   // the task is held here now
	Claim int64  // the token with which it was last claimed here; lines with a lower one are from before that
	Token int64  // of the last start here
	Lines []Line // the oldest first
}
