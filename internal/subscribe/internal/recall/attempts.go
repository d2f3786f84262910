package recall

import (
	"encoding/json"
	"maps"
	"strconv"
	"sync"
)

// mostAttempts is how many messages are kept at once: what Kafka takes with a commit is bounded.
const mostAttempts = 16

// Attempts holds how often messages were delivered, by names that the source gives them. It is safe for concurrent use.
type Attempts struct {
	mu sync.Mutex
	of map[string]int
}

// ParseAttempts reads what [Attempts.String] wrote. Anything else is taken for nothing.
func ParseAttempts(text string) *Attempts {
	k := &Attempts{of: map[string]int{}}
	var of map[string]int
	if err := json.Unmarshal([]byte(text), &of); err == nil {
		k.Update(of)
	}
	return k
}

// String is JSON; empty where nothing is kept.
func (k *Attempts) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.of) == 0 {
		return ""
	}
	text, _ := json.Marshal(k.of) // texts and numbers have JSON
	return string(text)
}

// Of is how often a message was delivered; 0: that is not known.
func (k *Attempts) Of(name string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[name]
}

// Update takes what is known now; 0 forgets a message. Where there are too many, it takes the place of others.
func (k *Attempts) Update(now map[string]int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.of
	k.of = make(map[string]int, len(now))
	k.add(now)
	maps.DeleteFunc(before, func(name string, _ int) bool { _, known := now[name]; return known })
	k.add(before)
}

func (k *Attempts) add(some map[string]int) {
	for name, n := range some {
		if n > 0 && len(k.of) < mostAttempts {
			k.of[name] = n
		}
	}
}

// DropBefore forgets the messages below a place, where names are places in a log. What is no place is forgotten too.
func (k *Attempts) DropBefore(next int64) {
	k.Drop(func(name string) bool {
		place, err := strconv.ParseInt(name, 10, 64)
		return err != nil || place < next
	})
}

// Drop forgets messages.
func (k *Attempts) Drop(gone func(name string) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.of, func(name string, _ int) bool { return gone(name) })
}
