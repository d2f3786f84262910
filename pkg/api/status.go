package api

import (
	"encoding/json"
)

// Status is /api/v1/status: the cluster on one screen.
type Status struct {
	Cluster    string    `json:"cluster"`
	Instance   string    `json:"instance"`   // the replica that answers
	Version    string    `json:"version"`    // of the program that answers
	ObservedAt Time      `json:"observedAt"` // zero: nothing was read yet
	Stale      bool      `json:"stale"`      // the store is unreachable: this is how it was at ObservedAt
	Ready      bool      `json:"ready"`
	Draining   bool      `json:"draining"`
	Store      Store     `json:"store"`
	Groups     []Group   `json:"groups"`
	Problems   []Problem `json:"problems"`
}

// MarshalJSON writes lists that are nil as empty ones.
func (s Status) MarshalJSON() ([]byte, error) {
	type plain Status
	s.Groups, s.Problems = notNil(s.Groups), notNil(s.Problems)
	return json.Marshal(plain(s))
}

// Store is what the replica that answers sees of the store.
type Store struct {
	Kind      string `json:"kind"` // what the driver is called, such as mongodb
	Reachable bool   `json:"reachable"`
	Error     string `json:"error"` // why it is not reachable; never holds a password
}
