package api

// Owner is who owns a key, or owned it last.
type Owner struct {
	Instance     string `json:"instance"` // empty when there is none
	Session      string `json:"session"`
	FencingToken int64  `json:"fencingToken"` // rises with each owner, and each restart
	OwnedSince   Time   `json:"ownedSince"`
}

// Lock is the record of who owns a key, whether a task is declared for it or not.
type Lock struct {
	Key   string `json:"key"`
	Group string `json:"group"`
	Name  string `json:"name"`

	Owner // in JSON its fields stand in the lock

	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Next      string `json:"next"`      // the session that it is reserved for, empty when none
	Suspended bool   `json:"suspended"` // paused, done or not declared
}
