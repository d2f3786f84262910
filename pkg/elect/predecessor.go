package elect

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Predecessor is a session of a process before this one, of which it is certain that nothing is left. A container that
// is started again knows it of the processes that ran in it before, since all of them ended with its first one. A name
// proves nothing.
type Predecessor struct {
	Session string
	// Remote are the keys that remote endpoints may still work on, and for how long. The time counts from the moment
	// others hear that the session is dead.
	Remote map[Key]time.Duration
}

// predecessors are those of the configuration whose remote leases a document can hold. The others are left to the
// lease, as any other is.
func predecessors(of []Predecessor, log logr.Logger) []engine.Predecessor {
	var all []engine.Predecessor
	for _, p := range of {
		remote := make(map[Key]int64, len(p.Remote))
		for key, left := range p.Remote {
			remote[key] = left.Milliseconds()
		}
		if err := (record.Session{Remote: remote}).Validate(); err != nil {
			log.Error(err, "Too many remote leases of a predecessor: it is left to its lease", "session", p.Session)
			continue
		}
		all = append(all, engine.Predecessor{Session: p.Session, Remote: remote})
	}
	return all
}
