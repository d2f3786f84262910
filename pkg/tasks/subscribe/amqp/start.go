package amqp

import (
	"errors"
	"strconv"
	"time"
)

// Words of Stream's fields.
const (
	earliest = "earliest"
	latest   = "latest"
	stop     = "stop"
)

const (
	startForms   = "earliest, latest, an offset such as 4711, or a time such as 2026-01-02T15:04:05Z"
	missingForms = "earliest, latest or stop"
)

var errStart = errors.New("amqp.stream.start: must be " + startForms)

// parseStart is the value of the consumer's argument x-stream-offset. It is latest for the one start that is to be
// looked up first.
func parseStart(text string) (any, error) {
	switch text {
	case earliest:
		return "first", nil
	case latest:
		return latest, nil
	}
	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		return offset, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return nil, errStart
}
