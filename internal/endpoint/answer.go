package endpoint

import (
	"context"
	"io"
	"net/http"
	"time"
)

// How much of an answer is read whose status says it all. An endpoint may send a body that never ends, or stop in the
// middle of one.
const (
	maxRest    = 64 << 10 // in bytes
	restWithin = 250 * time.Millisecond
	saidWithin = time.Second // where its text says why
)

// Drain reads what is left of an answer, so that the connection can be used again: at most 64 KiB, for at most 250 ms.
// cancel ends the request. The caller closes the body.
func Drain(answer *http.Response, cancel context.CancelFunc) {
	if answer.ContentLength == 0 || answer.ContentLength > maxRest {
		return // there is nothing to read, or too much
	}
	defer time.AfterFunc(restWithin, cancel).Stop()
	_, _ = io.CopyN(io.Discard, answer.Body, maxRest) // what counts is the status
}

// Said is the beginning of what an answer says: at most 64 KiB, of what comes within 1 s. cancel ends the request. The
// caller closes the body.
func Said(answer *http.Response, cancel context.CancelFunc) []byte {
	defer time.AfterFunc(saidWithin, cancel).Stop()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRest)) // a part of it says something, too
	return text
}
