package subscribetest

import (
	"bytes"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// acked is what is known of a message's acknowledgement.
type acked int

const (
	ackedNo    acked = iota
	ackedMaybe       // Ack has returned an error
	ackedYes
)

// entry is one published message. Its body is its name.
type entry struct {
	at    int // place in the order of publishing
	name  string
	key   string
	id    string // once it was received
	seen  int    // number of the subscription that received it last, from 1
	acked acked
}

// ledger knows what was published, received and acknowledged, and judges what comes. Its methods may be called
// concurrently.
type ledger struct {
	mu         sync.Mutex
	entries    []*entry
	byName     map[string]*entry
	byID       map[string]*entry
	partitions map[string]string // of each key, once it is known
}

func newLedger() *ledger {
	return &ledger{byName: map[string]*entry{}, byID: map[string]*entry{}, partitions: map[string]string{}}
}

// publish notes messages that are about to be published.
func (l *ledger) publish(messages ...subscribe.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range messages {
		e := &entry{at: len(l.entries), name: string(m.Body), key: string(m.Key)}
		l.entries = append(l.entries, e)
		l.byName[e.name] = e
	}
}

// receive notes a message that the n-th subscription received, and says what is wrong about that.
func (l *ledger) receive(n int, m subscribe.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.byName[string(m.Body)]
	switch {
	case e == nil:
		return fmt.Errorf("%s came, which was not published", label(m))
	case e.acked == ackedYes:
		return fmt.Errorf("%s came again, though its Ack had returned without an error", label(m))
	case e.seen == n:
		return fmt.Errorf("%s came twice in one subscription", label(m))
	}
	if err := l.identify(e, m); err != nil {
		return err
	}
	if err := l.place(e, m); err != nil {
		return err
	}
	e.seen = n
	return l.ordered(e, n, m.Partition)
}

// identify checks the ID, which is one of all topics of the name with the origin.
func (l *ledger) identify(e *entry, m subscribe.Message) error {
	id := m.Unique()
	switch other := l.byID[id]; {
	case m.ID == "":
		return fmt.Errorf("%s has no ID", label(m))
	case e.id != "" && e.id != id:
		return fmt.Errorf("%s came again with another ID: it was %s", label(m), e.id)
	case other != nil && other != e:
		return fmt.Errorf("%s has the ID of %q", label(m), other.name)
	}
	e.id, l.byID[id] = id, e
	return nil
}

// place checks the partition.
func (l *ledger) place(e *entry, m subscribe.Message) error {
	if e.key == "" {
		return nil // it may come in any
	}
	was, known := l.partitions[e.key]
	if known && was != m.Partition {
		return fmt.Errorf("%s of key %s came in partition %q, others of this key in %q", label(m), e.key, m.Partition,
			was)
	}
	l.partitions[e.key] = m.Partition
	return nil
}

// ordered checks that all before it in its partition have come or are acknowledged, and none behind it has come.
func (l *ledger) ordered(e *entry, n int, partition string) error {
	for _, f := range l.entries {
		if p, known := l.partitions[f.key]; !known || p != partition || f == e {
			continue
		}
		switch {
		case f.at < e.at && f.acked == ackedNo && f.seen != n:
			return fmt.Errorf("%q came before %q, which was published earlier in partition %q and is not acknowledged",
				e.name, f.name, partition)
		case f.at > e.at && f.seen == n:
			return fmt.Errorf("%q came after %q, which was published later in partition %q", e.name, f.name, partition)
		}
	}
	return nil
}

// ack notes how Ack ended.
func (l *ledger) ack(err error, messages []subscribe.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range messages {
		if e := l.byName[string(m.Body)]; err == nil {
			e.acked = ackedYes
		} else {
			e.acked = max(e.acked, ackedMaybe)
		}
	}
}

// lost are messages that the n-th subscription has not received, and that are not acknowledged.
func (l *ledger) lost(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, e := range l.entries {
		if e.acked == ackedNo && e.seen != n {
			names = append(names, e.name)
		}
	}
	return names
}

// done are how many messages are acknowledged, or may be.
func (l *ledger) done() (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.acked != ackedNo {
			count++
		}
	}
	return count
}

// forget says that acknowledgements were undone, and the messages must come again.
func (l *ledger) forget(messages ...subscribe.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range messages {
		l.byName[string(m.Body)].acked = ackedNo
	}
}

// label shows a message in an error.
func label(m subscribe.Message) string { return fmt.Sprintf("%s (ID %s)", short(string(m.Body)), m.ID) }

// short shows a body.
func short(body string) string {
	if len(body) > 40 {
		return fmt.Sprintf("%q…, %d bytes,", body[:40], len(body))
	}
	return strconv.Quote(body)
}

// names are the bodies, which tests choose as names.
func names(messages []subscribe.Message) []string {
	var bodies []string
	for _, m := range messages {
		bodies = append(bodies, string(m.Body))
	}
	return bodies
}

// list shows names in an error.
func list(names []string) string {
	shown := make([]string, len(names))
	for i, name := range names {
		if shown[i] = name; !utf8.ValidString(name) || len(name) > 40 {
			shown[i] = short(name)
		}
	}
	return "[" + strings.Join(shown, " ") + "]"
}

// traffic is what is published to one topic, and the ledger that judges what comes. Its methods may be called
// concurrently.
type traffic struct {
	t      *testing.T // for the topic's functions only
	topic  Topic
	book   *ledger
	number atomic.Int64 // of the last message
}

// messages makes n messages of the keys in turn.
func (t *traffic) messages(n int, keys ...string) []subscribe.Message {
	list := make([]subscribe.Message, n)
	for i := range list {
		key := keys[i%len(keys)]
		list[i] = subscribe.Message{Key: []byte(key), Body: fmt.Appendf(nil, "%s-%03d", key, t.number.Add(1))}
	}
	return list
}

// publish notes messages in the ledger and publishes them.
func (t *traffic) publish(messages ...subscribe.Message) {
	t.book.publish(messages...)
	t.topic.Publish(t.t, messages...)
}

// send publishes n messages of the keys in turn.
func (t *traffic) send(n int, keys ...string) []subscribe.Message {
	sent := t.messages(n, keys...)
	t.publish(sent...)
	return sent
}

// flood is publish by the topic's Flood.
func (t *traffic) flood(messages ...subscribe.Message) {
	t.book.publish(messages...)
	publish := t.topic.Flood
	if publish == nil {
		publish = t.topic.Publish
	}
	publish(t.t, messages...)
}

// sameAs checks all fields that a broker carries.
func (s *scene) sameAs(got, want subscribe.Message) {
	s.Helper()
	switch {
	case !bytes.Equal(got.Body, want.Body):
		s.Fatalf("%s: the body differs from the published one %s", label(got), label(want))
	case !s.topic.NoKeys && !bytes.Equal(got.Key, want.Key):
		s.Fatalf("%s: the key is %q, want %q", label(got), got.Key, want.Key)
	case s.topic.NoHeaders:
	case got.Type != want.Type:
		s.Fatalf("%s: the type is %q, want %q", label(got), got.Type, want.Type)
	case !maps.Equal(got.Headers, want.Headers):
		s.Fatalf("%s: the headers are %q, want %q", label(got), got.Headers, want.Headers)
	}
}

func bodyIn(messages []subscribe.Message, body []byte) int {
	for i, m := range messages {
		if bytes.Equal(m.Body, body) {
			return i
		}
	}
	return -1
}
