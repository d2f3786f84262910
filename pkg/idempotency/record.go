package idempotency

import (
	"encoding/json"
	"fmt"
)

// State is how far a request is.
type State string

// The states of a record. A request without a record has not been seen, or is forgotten.
const (
	Started State = "started" // a caller is at work, or died at it
	Done    State = "done"    // the reply is kept
	Failed  State = "failed"  // the work returned an error, or its caller died half way
)

// Record is what is kept of a request.
type Record struct {
	ID          string `json:"id"`
	Fingerprint string `json:"fingerprint,omitempty"`
	State       State  `json:"state"`
	Owner       string `json:"owner,omitempty"` // the process that started it, as its [Records] names it
	Claim       string `json:"claim"`           // names the call that wrote it
	Attempt     int    `json:"attempt"`         // how often the work was begun, this time included

	Reply       Reply  `json:"reply,omitzero"`        // of Done
	Omitted     bool   `json:"omitted,omitempty"`     // Done: the reply was too large to be kept
	Failure     string `json:"failure,omitempty"`     // of Failed: the error's text
	Interrupted bool   `json:"interrupted,omitempty"` // Failed: since its caller died
}

// Encode is the record as bytes, for those who keep it.
func (r Record) Encode() ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("record of request %.80q: %w", r.ID, err)
	}
	return body, nil
}

// DecodeRecord is the reverse of [Record.Encode]. A record that was edited so that it makes no sense is an error.
func DecodeRecord(body []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(body, &r); err != nil {
		return Record{}, fmt.Errorf("record of a request: %w", err)
	}
	switch r.State {
	case Started, Done, Failed:
	default:
		return Record{}, fmt.Errorf("record of request %.80q: state %q, want %s, %s or %s", r.ID, r.State, Started,
			Done,
			Failed)
	}
	if r.Claim == "" || r.Attempt < 1 {
		return Record{}, fmt.Errorf("record of request %.80q: claim %q, attempt %d: want a claim, and an attempt from 1",
			r.ID, r.Claim, r.Attempt)
	}
	return r, nil
}
