// Package memsource is a source of messages in memory, for tests. Its broker can be cut, blocked and truncated.
package memsource

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// ErrCut says that the connection was broken.
var ErrCut = errors.New("the connection to the broker in memory was cut")

// Broker has topics. Its methods may be called concurrently.
type Broker struct {
	mu      sync.Mutex
	topics  map[string]*topic
	open    map[*Subscription]struct{}
	blocked bool
	made    int           // topics, ever
	changed chan struct{} // closed and replaced whenever something changes
}

// topic has partitions, and what its consumers have acknowledged.
type topic struct {
	made       int // tells it from others of its name
	partitions []partition
	turn       int // partition of the next message without a key
	consumers  map[string]map[string]bool
	delivered  map[string]map[string]int // how often, as consumers have kept it
}

// partition is a log. Its first messages may be gone.
type partition struct {
	first    int // offset of messages[0]
	messages []subscribe.Message
}

func (p partition) end() int { return p.first + len(p.messages) }

// New makes a broker without topics.
func New() *Broker {
	return &Broker{topics: map[string]*topic{}, open: map[*Subscription]struct{}{}, changed: make(chan struct{})}
}

// Create makes a topic. One that there is stays.
func (b *Broker) Create(name string, partitions int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.topics[name] == nil {
		b.made++
		b.topics[name] = &topic{
			made: b.made, partitions: make([]partition, partitions), consumers: map[string]map[string]bool{},
			delivered: map[string]map[string]int{},
		}
	}
	b.wake()
}

// MakeAgain deletes a topic, and makes an empty one of its name with as many partitions.
func (b *Broker) MakeAgain(name string) {
	b.mu.Lock()
	partitions := len(b.topics[name].partitions)
	delete(b.topics, name)
	b.mu.Unlock()
	b.Create(name, partitions)
}

// Drop deletes what a consumer has acknowledged of a topic, as if it had never been there.
func (b *Broker) Drop(name, consumer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.topics[name].consumers, consumer)
	b.wake()
}

// Publish appends messages to a topic by their Key, Body, Type and Headers.
func (b *Broker) Publish(name string, messages ...subscribe.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := b.find(name)
	if err != nil {
		return err
	}
	for _, m := range messages {
		n := t.choose(m.Key)
		p := &t.partitions[n]
		m.Partition = strconv.Itoa(n)
		m.ID = fmt.Sprintf("%s/%d/%d", name, n, p.end())
		m.Body = slices.Clone(m.Body)
		m.Time, m.Again, m.Ref = time.Now(), false, place{n, p.end()}
		p.messages = append(p.messages, m)
	}
	b.wake()
	return nil
}

// PartitionOf is where messages of a key go.
func (b *Broker) PartitionOf(name string, key []byte) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strconv.Itoa(b.topics[name].choose(key))
}

// Messages are those of a topic that are not truncated, by partition.
func (b *Broker) Messages(name string) ([]subscribe.Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := b.find(name)
	if err != nil {
		return nil, err
	}
	var all []subscribe.Message
	for _, p := range t.partitions {
		all = append(all, p.messages...)
	}
	return all, nil
}

// Wait waits until a topic has n messages, and returns all.
func (b *Broker) Wait(ctx context.Context, name string, n int) ([]subscribe.Message, error) {
	for {
		changed := b.change()
		all, err := b.Messages(name)
		if err != nil || len(all) >= n {
			return all, err
		}
		select {
		case <-ctx.Done():
			return all, fmt.Errorf("wait for %d messages of topic %s, which has %d: %w", n, name, len(all), ctx.Err())
		case <-changed:
		}
	}
}

// WaitAcked waits until a consumer has acknowledged n messages of a topic.
func (b *Broker) WaitAcked(ctx context.Context, name, consumer string, n int) error {
	for {
		changed := b.change()
		acked := b.Acked(name, consumer)
		if acked >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d messages of topic %s that %s has acknowledged, there are %d: %w", n, name,
				consumer, acked, ctx.Err())
		case <-changed:
		}
	}
}

// Acked is how many messages of a topic a consumer has acknowledged.
func (b *Broker) Acked(name, consumer string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.topics[name]; t != nil {
		return len(t.consumers[consumer])
	}
	return 0
}

// Truncate removes the first n messages of each partition.
func (b *Broker) Truncate(name string, n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := b.find(name)
	if err != nil {
		return err
	}
	for i := range t.partitions {
		p := &t.partitions[i]
		gone := min(n, len(p.messages))
		p.messages, p.first = p.messages[gone:], p.first+gone
	}
	b.wake()
	return nil
}

// Cut breaks all connections.
func (b *Broker) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.open {
		s.cut = true
	}
	clear(b.open)
	b.wake()
}

// Block makes every call of subscriptions wait until Unblock, or until its context ends.
func (b *Broker) Block() { b.block(true) }

// Unblock ends Block.
func (b *Broker) Unblock() { b.block(false) }

func (b *Broker) block(blocked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blocked = blocked
	b.wake()
}

// pass waits while the broker is blocked.
func (b *Broker) pass(ctx context.Context) error {
	for {
		b.mu.Lock()
		blocked, changed := b.blocked, b.changed
		b.mu.Unlock()
		if err := ctx.Err(); err != nil || !blocked {
			return err
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

func (b *Broker) change() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// wake wakes all who wait. The caller has locked.
func (b *Broker) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// find finds a topic. The caller has locked.
func (b *Broker) find(name string) (*topic, error) {
	if t := b.topics[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("the broker in memory has no topic %s: create it", name)
}

// choose is the partition of a key.
func (t *topic) choose(key []byte) int {
	if key == nil {
		t.turn++
		return t.turn % len(t.partitions)
	}
	h := fnv.New32a()
	_, _ = h.Write(key)
	return int(h.Sum32() % uint32(len(t.partitions))) //nolint:gosec // a handful of partitions
}
