package idempotency

import (
	"context"
	"sync"
	"time"
)

// Memory keeps records in this process, for tests and for programs of one process. They are gone when it ends.
func Memory() Records { return &memory{records: make(map[string]kept)} }

// memory implements [Records].
type memory struct {
	mu      sync.Mutex
	version int64
	records map[string]kept
}

type kept struct {
	Found
	expires time.Time
}

// sweepEach is how many records each write looks at, to forget those that have expired.
const sweepEach = 4

func (m *memory) Read(_ context.Context, id string) (Found, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.found(id), nil
}

func (m *memory) found(id string) Found {
	one, ok := m.records[id]
	if !ok {
		return Found{}
	}
	one.Expired = !time.Now().Before(one.expires)
	return one.Found
}

func (m *memory) Write(_ context.Context, w Write) (Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.found(w.ID); found.Version != w.Over {
		return Answer{Found: found}, nil
	}
	m.version++
	if w.Record == nil {
		delete(m.records, w.ID)
	} else {
		m.records[w.ID] = kept{Found{Record: *w.Record, Version: m.version}, time.Now().Add(w.Keep)}
	}
	m.sweep()
	return Answer{Applied: true, Version: m.version}, nil
}

// sweep forgets some of what has expired. A request that is at work is kept.
func (m *memory) sweep() {
	left := sweepEach
	for id := range m.records {
		if found := m.found(id); found.Expired && found.Record.State != Started {
			delete(m.records, id)
		}
		if left--; left == 0 {
			return
		}
	}
}

func (m *memory) Own(ctx context.Context) (context.Context, string, func(), error) {
	return ctx, "this process", func() {}, nil
}

// Dead is false: whoever could ask is this process.
func (m *memory) Dead(context.Context, string) (bool, error) { return false, nil }

func (m *memory) Within() bool { return false }
