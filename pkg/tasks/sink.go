package tasks

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

// Sink gets what commands write, line by line, without the line end; lines over 64 KiB come in pieces. Calls for one
// stream of a key are in order. A call that does not return holds up the command, once its pipe is full, and nothing
// else: nothing is dropped.
type Sink interface {
	Line(key elect.Key, stream Stream, line string)
}

// Line is a line that a command wrote.
type Line struct {
	Seq    uint64 // counts the task's lines from 1, without gaps
	Time   time.Time
	Stream Stream
	Text   string
}
