package api

// InstanceState is how much an instance takes part.
type InstanceState string

// The states of an instance. One that an operator drains is draining until undrain, also when it owns nothing any more.
const (
	Live     InstanceState = "live"
	Draining InstanceState = "draining"
	Left     InstanceState = "left" // gone in order; hidden unless asked for
	Dead     InstanceState = "dead"
)

// InstanceStates lists every state, in the order in which they are shown.
func InstanceStates() []InstanceState { return []InstanceState{Live, Draining, Left, Dead} }

// Instance is one running replica, or one that ran lately. Two sessions of one name are two instances here.
type Instance struct {
	Name      string        `json:"name"`
	Session   string        `json:"session"`
	State     InstanceState `json:"state"`
	Message   string        `json:"message"` // why it is in this state: who drained it, how it died
	Zone      string        `json:"zone"`
	Labels    Labels        `json:"labels"`
	Version   string        `json:"version"`
	Revision  string        `json:"revision"`
	Address   string        `json:"address"` // host:port of its server.listen, as others reach it
	StartedAt Time          `json:"startedAt"`
	// since its newest heartbeat was seen, as measured by the replica that answers
	HeartbeatAgeSeconds float64   `json:"heartbeatAgeSeconds"`
	Owned               Counts    `json:"owned"`     // by group
	Caps                Counts    `json:"caps"`      // by group; a group without cap is left out
	Overrides           Overrides `json:"overrides"` // a drain, a cordon
}
