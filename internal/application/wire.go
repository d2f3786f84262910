package application

// Request is the body of POST /v1/sync.
type Request struct {
	// App names the process: a uuid of its own.
	App string `json:"app"`
	// Session and Seq are those of the newest reply; empty and 0 before the first.
	Session string `json:"session"`
	Seq     int64  `json:"seq"`
	// Wait is how long, in seconds, the reply may wait for news.
	Wait float64 `json:"wait"`
	// Running is everything that runs, also what is being stopped. Same stands for it: Listed of the reply to the last
	// call that had it, when nothing has changed.
	Running []Assigned `json:"running"`
	Same    string     `json:"same"`
	// Load of keys that run, in any unit that is the same for all of a group.
	Load map[string]float64 `json:"load"`
	// Status is shown to people.
	Status map[string]string `json:"status"`
	// Ready says that keys may be assigned.
	Ready bool `json:"ready"`
}

// tokens are those of what runs, by key.
func (r *Request) tokens() map[string]int64 {
	tokens := make(map[string]int64, len(r.Running))
	for _, a := range r.Running {
		tokens[a.Key] = a.Token
	}
	return tokens
}

// Reply is the answer to a Request.
type Reply struct {
	Session string `json:"session"`
	Seq     int64  `json:"seq"`
	// ValidFor is how long, in seconds from when the call was sent, what is assigned may run.
	ValidFor float64 `json:"validFor"`
	// Listed stands for what the call said it runs; empty: say all of it in the next.
	Listed string `json:"listed"`
	// Assigned and Stopping are whole. Both are null when the call had Same, and knew them.
	Assigned []Assigned `json:"assigned"`
	Stopping []Stopping `json:"stopping"`
}

// Assigned is a key to run, or that runs.
type Assigned struct {
	Key   string `json:"key"`
	Token int64  `json:"token"`
}

// Stopping is a key that has to stop.
type Stopping struct {
	Key    string  `json:"key"`
	Token  int64   `json:"token"`
	Within float64 `json:"within"` // seconds
	Reason string  `json:"reason"`
}
