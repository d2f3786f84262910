package zookeeper

import (
	"sync"

	"github.com/shardctl/shardctl/pkg/store"
)

// maxLive bounds what is remembered. A process writes heartbeats of its own session, and marks some others dead.
const maxLive = 1000

// liveSessions remembers at which revision this process wrote a session live. So it knows a heartbeat, which no one is
// to be notified of. What it does not know costs the others a look.
type liveSessions struct {
	mu   sync.Mutex
	revs map[string]int64
}

// heartbeat says whether a change leaves a session live.
func (l *liveSessions) heartbeat(c store.Change) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.Op == store.Put && c.Doc.State == store.StateLive && c.IfRev > 0 && l.revs[c.Doc.ID] == c.IfRev
}

// note remembers a change that was applied.
func (l *liveSessions) note(c store.Change) {
	if c.Doc.Kind != store.KindSession {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Op != store.Put || c.Doc.State != store.StateLive {
		delete(l.revs, c.Doc.ID)
		return
	}
	if len(l.revs) >= maxLive {
		clear(l.revs)
	}
	l.revs[c.Doc.ID] = c.Doc.Rev
}
