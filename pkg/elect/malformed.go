package elect

import (
	"sync"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
)

// maxMalformed bounds the memory of what was logged.
const maxMalformed = 1000

// malformed logs documents that cannot be read whole, each once for each time it was edited. It may be used
// concurrently.
type malformed struct {
	mu     sync.Mutex
	logged map[docAt]bool
}

type docAt struct {
	kind store.Kind
	id   string
	rev  int64
}

// note logs what was wrong with d, if anything was.
func (m *malformed) note(log logr.Logger, d store.Doc, err error) {
	if err == nil {
		return
	}
	at := docAt{d.Kind, d.ID, d.Rev}
	m.mu.Lock()
	known := m.logged[at]
	if m.logged == nil || len(m.logged) >= maxMalformed {
		m.logged = map[docAt]bool{}
	}
	m.logged[at] = true
	m.mu.Unlock()
	if !known {
		log.Info(
			"A document in the store is malformed: somebody has edited it", "document", string(d.Kind)+" "+d.ID,
			"error",
			err.Error(),
		)
	}
}
