package api

import "encoding/json"

// Status is the cluster on one screen. It is what /api/v1/status answers.
type Status struct {
	Cluster    string    `json:"cluster"`
	Instance   string    `json:"instance"`   // the replica that answers
	Version    string    `json:"version"`    // of the program that answers
	ObservedAt Time      `json:"observedAt"` // zero: nothing was read yet
	Stale      bool      `json:"stale"`      // the store is unreachable: this is how it was at observedAt
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
	Name     string        `json:"name"`
	Session  string        `json:"session"`
	State    InstanceState `json:"state"`
	Message  string        `json:"message"` // why it is in this state: who drained it, how it died
	Zone     string        `json:"zone"`
	Labels   Labels        `json:"labels"`
	Version  string        `json:"version"`
	Revision string        `json:"revision"`
	Address  string        `json:"address"` // HOST:PORT of its server.listen, as others reach it
	// AppAddress is the HOST:PORT where requests for its keys go; empty: nowhere.
	AppAddress string `json:"appAddress"`
	StartedAt  Time   `json:"startedAt"`
	// since its newest heartbeat was seen, as measured by the replica that answers
	HeartbeatAgeSeconds float64   `json:"heartbeatAgeSeconds"`
	Owned               Counts    `json:"owned"`     // by group
	Caps                Counts    `json:"caps"`      // by group; a group without cap is left out
	Overrides           Overrides `json:"overrides"` // a drain, a cordon
	// Application is the process beside it that runs its tasks with assign; nil: none is configured.
	Application *Application `json:"application"`
}

// Application is the process beside an instance that runs its tasks with assign, as the instance knows it.
type Application struct {
	ID      string `json:"id"`      // a UUID of the process; empty: none has called
	PID     int    `json:"pid"`     // of the command that the instance has started; 0: none
	Ready   bool   `json:"ready"`   // the instance takes keys for it
	Message string `json:"message"` // why it is not ready
	Since   Time   `json:"since"`   // its first call
	// since its last call; nil: it has not called, or another instance answers
	LastCallAgeSeconds *float64      `json:"lastCallAgeSeconds"`
	Status             Labels        `json:"status"`   // what it said of itself last
	Stopping           []StoppingKey `json:"stopping"` // what it has to stop, by key; at most 20
}

// MarshalJSON writes a list that is nil as an empty one.
func (a Application) MarshalJSON() ([]byte, error) {
	type plain Application
	a.Stopping = notNil(a.Stopping)
	return json.Marshal(plain(a))
}

// StoppingKey is a key that an application has to stop.
type StoppingKey struct {
	Key string `json:"key"`
	By  Time   `json:"by"` // when its time to stop is over
}

// Severity is how bad a problem is.
type Severity string

// The severities, worst first.
const (
	SeverityError   Severity = "error"   // something does not run, or may soon not
	SeverityWarning Severity = "warning" // all runs, but not as it should
)

// The reasons of problems. The same word stands in the API, the command line, logs and metric labels.
const (
	ProblemNoCapacity         = "NoCapacity"         // tasks that no cap has free capacity for
	ProblemNoInstance         = "NoInstance"         // tasks that no live instance may own
	ProblemNoHeadroom         = "NoHeadroom"         // losing one instance would leave tasks over
	ProblemStoreUnreachable   = "StoreUnreachable"   // the store does not answer
	ProblemStoreRefuses       = "StoreRefuses"       // the store answers, and refuses some calls
	ProblemStoreSlow          = "StoreSlow"          // the store answers late
	ProblemStoreStandalone    = "StoreStandalone"    // MongoDB without a replica set
	ProblemStoreForgot        = "StoreForgot"        // the store has lost writes it had acknowledged
	ProblemStoreArbiter       = "StoreArbiter"       // a MongoDB member without data: one lost node may stop all writes
	ProblemStoreSharding      = "StoreSharding"      // how MongoDB shards the locks could not be checked
	ProblemStoreNotDurable    = "StoreNotDurable"    // a crash may lose what the store acknowledged
	ProblemStoreNotReplicated = "StoreNotReplicated" // a failover may lose what the store acknowledged
	ProblemStorePolled        = "StorePolled"        // notifications do not arrive: changes are looked for
	ProblemStoreLogBroken     = "StoreLogBroken"     // changes are written, and cannot be noted for watches
	ProblemStoreIncomplete    = "StoreIncomplete"    // an index or a trigger is missing, and the user may not make it
	ProblemStoreNotCompacted  = "StoreNotCompacted"  // no one takes away what heartbeats leave in etcd
	ProblemStoreNearlyFull    = "StoreNearlyFull"    // near the size at which etcd takes no writes
	ProblemStoreUnchecked     = "StoreUnchecked"     // the user may not see a setting that matters
	ProblemStoreEviction      = "StoreEviction"      // Redis would drop documents once its memory is limited
	ProblemStoreClosed        = "StoreClosed"        // Redis has had too many servers: no key can be claimed
	ProblemStoreReplicaLags   = "StoreReplicaLags"   // a fail-over of MySQL or MariaDB may lose acknowledged writes
	ProblemStoreSeveralNodes  = "StoreSeveralNodes"  // several nodes of Galera take writes
	ProblemStorePrivileged    = "StorePrivileged"    // the user may write to a server that is read-only
	ProblemStoreMinorityAway  = "StoreMinorityAway"  // servers of a quorum do not count, and more would stop it
	ProblemTaskFailing        = "TaskFailing"        // a task ends again and again
	ProblemStopStuck          = "StopStuck"          // a task does not stop when asked to
	ProblemStartStuck         = "StartStuck"         // a command does not start: a file system does not answer
	ProblemConfigInvalid      = "ConfigInvalid"      // a reload was refused
	ProblemConfigDiffers      = "ConfigDiffers"      // replicas hold different task lists of one revision
	ProblemRestartRequired    = "RestartRequired"    // a changed setting counts only after a restart
	ProblemDuplicateInstance  = "DuplicateInstance"  // two live sessions of one name
	ProblemInstanceSilent     = "InstanceSilent"     // a replica that is live sends no heartbeats
	ProblemClockSkew          = "ClockSkew"          // the clock of a replica and that of the store differ

	ProblemNoApplication = "NoApplication" // the application beside a replica is not there, or not ready

	ProblemDiscoveryFailed     = "DiscoveryFailed"     // who is asked what exists does not answer
	ProblemDiscoveryIncomplete = "DiscoveryIncomplete" // some of what was found has no task
)

// ProblemReasons lists every reason above.
func ProblemReasons() []string {
	return []string{
		ProblemNoCapacity, ProblemNoInstance, ProblemNoHeadroom, ProblemStoreUnreachable, ProblemStoreRefuses,
		ProblemStoreSlow, ProblemStoreStandalone, ProblemStoreForgot, ProblemStoreArbiter, ProblemStoreSharding,
		ProblemTaskFailing,
		ProblemStoreNotDurable, ProblemStoreNotReplicated, ProblemStorePolled, ProblemStoreNotCompacted,
		ProblemStoreNearlyFull, ProblemStoreUnchecked, ProblemStoreEviction, ProblemStoreClosed,
		ProblemStoreReplicaLags, ProblemStoreSeveralNodes, ProblemStorePrivileged, ProblemStoreMinorityAway,
		ProblemStoreLogBroken, ProblemStoreIncomplete,
		ProblemStopStuck,
		ProblemStartStuck, ProblemConfigInvalid, ProblemConfigDiffers, ProblemRestartRequired, ProblemDuplicateInstance,
		ProblemInstanceSilent, ProblemClockSkew,
		ProblemNoApplication, ProblemDiscoveryFailed, ProblemDiscoveryIncomplete,
	}
}

// Problem is something wrong, and why. What it is about is in Group, Task (a key) and Instance, each empty when it
// does not apply.
type Problem struct {
	Reason   string   `json:"reason"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Group    string   `json:"group"`
	Task     string   `json:"task"`
	Instance string   `json:"instance"`
	Since    Time     `json:"since"`
}
