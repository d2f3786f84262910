//go:build linux

package brokers_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/test/e2e/brokers/judge"
)

const (
	// senders publish at the same time, each to lanes of its own. Each waits for a confirmation before it goes on: on a
	// busy machine that takes tens of milliseconds.
	senders = 50
	// publishTimeout bounds one message. A broker that restarts may take most of it.
	publishTimeout = 45 * time.Second
	// behind is how far a sender may fall behind its schedule before it forgets what it missed. After an outage it does
	// not send everything at once.
	behind = time.Second
)

// sender publishes numbered messages to lanes in turn, at a rate. It never publishes one twice: what is not confirmed
// may be there or not.
type sender struct {
	publish func(ctx context.Context, lane int, body []byte) error

	mu        sync.Mutex
	sent      []judge.Sent
	confirmed map[int]int // highest sequence number, by lane
	tried     map[int]int // the same of all that were published
	published int         // messages that the broker has taken
	doubtful  bool        // what it takes now may be lost
	last      error       // why a message was not confirmed
	began     time.Time
	took      time.Duration

	stop context.CancelFunc
	wait sync.WaitGroup
}

// startSender starts to publish; rate is messages a second in all.
func startSender(
	ctx context.Context, lanes int, rate float64, publish func(ctx context.Context, lane int, body []byte) error,
) *sender {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &sender{publish: publish, confirmed: map[int]int{}, tried: map[int]int{}, began: time.Now(), stop: stop}
	n := min(senders, lanes)
	every := time.Duration(float64(n) / rate * float64(time.Second))
	for first := range n {
		s.wait.Go(func() { s.run(ctx, first, n, lanes, every) })
	}
	return s
}

// run publishes to every step-th lane until ctx ends.
func (s *sender) run(ctx context.Context, first, step, lanes int, every time.Duration) {
	next := time.Now()
	for seq := 1; ; seq++ {
		for lane := first; lane < lanes; lane += step {
			if wait := time.Until(next); wait > 0 {
				select {
				case <-ctx.Done():
				case <-time.After(wait):
				}
			} else if wait < -behind {
				next = time.Now()
			}
			if ctx.Err() != nil {
				return
			}
			next = next.Add(every)
			s.one(context.WithoutCancel(ctx), lane, seq) // what has begun ends in its own time
		}
	}
}

// one publishes one message and notes how that ended.
func (s *sender) one(ctx context.Context, lane, seq int) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	s.mu.Lock()
	doubtful := s.doubtful
	s.mu.Unlock()
	err := s.publish(ctx, lane, judge.Body(lane, seq))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried[lane] = seq
	certain := err == nil && !s.doubtful && !doubtful
	s.sent = append(s.sent, judge.Sent{Lane: lane, Seq: seq, Confirmed: certain})
	switch {
	case err != nil:
		s.last = err
		return
	case certain:
		s.confirmed[lane] = seq
	}
	s.published++
}

// doubt has what is published from now on, and what is under way, count as not confirmed, or no longer.
func (s *sender) doubt(doubtful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubtful = doubtful
}

// tries are the highest sequence numbers that were published, by lane.
func (s *sender) tries() map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.tried)
}

// marks are the highest sequence numbers that the broker has confirmed, by lane.
func (s *sender) marks() map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.confirmed)
}

// end stops sending and waits for what is under way. It may be called again.
func (s *sender) end() {
	s.stop()
	s.wait.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.took == 0 {
		s.took = time.Since(s.began)
	}
}

// result is all that was sent, the rate of what was taken, in messages a second while the broker was there, and why
// some were not.
func (s *sender) result(down time.Duration) (sent []judge.Sent, rate float64, last error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent), float64(s.published) / (s.took - down).Seconds(), s.last
}
