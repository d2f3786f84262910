package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testbroker"
)

func TestMessage(t *testing.T) {
	r := newRig(t, 0)
	body := []byte{0, 0xff, '\n', 0}
	id, err := r.client.XAdd(subscribetest.Context(t), &goredis.XAddArgs{Stream: r.source.Stream, Values: []any{
		"body", body, "key", "eu", "type", "text/plain", "trace", "7",
	}}).Result()
	if err != nil {
		t.Fatal(err)
	}
	s := r.open(1)
	m := s.Take(1)[0]
	if string(m.Body) != string(body) || string(m.Key) != "eu" || m.Type != "text/plain" ||
		len(m.Headers) != 1 || m.Headers["trace"] != "7" || m.ID != r.source.Stream+"/"+id || m.Again ||
		time.Since(m.Time).Abs() > time.Minute {
		t.Errorf("got %+v", m)
	}
}

// A new owner gets what the last one did not acknowledge, in order and before what is new.
func TestUnacknowledgedComesAgainFirst(t *testing.T) {
	r := newRig(t, 6)
	first := r.open(1)
	got := first.Take(5)
	first.Ack(got[:1]...)
	first.Ack(got[2:3]...)
	first.Close()
	r.add("6")
	second := r.open(2)
	again := second.Expect("1 3 4 5 6")
	for i, m := range again {
		if m.Again != (i < 4) { // 5 was read ahead
			t.Errorf("again is %t of message %s", m.Again, m.Body)
		}
	}
	second.Ack(again...)
	if lag := second.Lag(); lag.Messages != 0 || lag.Seconds != 0 {
		t.Errorf("lag %+v", lag)
	}
}

// A replica that has lost its lease, and does not know, takes and acknowledges nothing.
func TestStaleOwner(t *testing.T) {
	r := newRig(t, 2)
	stale := r.open(1)
	got := stale.Take(2)
	blocked := make(chan error, 1) // it waits for entries while the new one opens, as a frozen worker does
	go func() {
		_, err := stale.TryReceive(1)
		blocked <- err
	}()
	r.waitBlocked(1)
	owner := r.open(2)
	taken := owner.Expect("0 1")
	subscribetest.WantError(t, stale.TryAck(got...), "OTHERTOKEN 2", "a newer owner", r.source.Stream)
	why := subscribe.Why{Err: errors.New("no")}
	subscribetest.WantError(t, stale.TryDeadLetter("dead-"+r.source.Stream, got[0], why), "OTHERTOKEN 2", "dead-")
	if n := r.do("EXISTS", "dead-"+r.source.Stream); n != int64(0) {
		t.Error("a stale owner published a dead letter")
	}
	if n := r.pending(); n != 2 {
		t.Errorf("%d entries are pending, want 2", n)
	}
	r.add("2")
	taken = append(taken, owner.Expect("2")...)
	subscribetest.WantError(t, <-blocked, "OTHERTOKEN 2")
	subscribetest.WantError(t, r.refused(1), "OTHERTOKEN 2", "no longer the owner")
	owner.Ack(taken...)
	if n := r.pending(); n != 0 {
		t.Errorf("%d entries are pending that the owner has acknowledged", n)
	}
}

// waitBlocked waits until so many clients wait for entries.
func (r *rig) waitBlocked(n int) {
	r.T.Helper()
	subscribetest.Eventually(r.T, fmt.Sprintf("%d clients wait for entries", n), func() bool {
		info, err := r.client.Info(subscribetest.Context(r.T), "clients").Result()
		if err != nil {
			r.T.Fatal(err)
		}
		return strings.Contains(info, fmt.Sprintf("blocked_clients:%d\r", n))
	})
}

func (r *rig) pending() int64 {
	r.T.Helper()
	p, err := r.client.XPending(subscribetest.Context(r.T), r.source.Stream, "shardctl.shop.orders").Result()
	if err != nil {
		r.T.Fatal(err)
	}
	return p.Count
}

// Tokens are larger than what Lua's numbers hold.
func TestTokensAreComparedWhole(t *testing.T) {
	r := newRig(t, 1)
	r.open(1<<53 + 1)
	subscribetest.WantError(t, r.refused(1<<53), "OTHERTOKEN 9007199254740993")
	r.open(1<<53 + 2).Take(1)
	r.open(1<<62 + 1)
	subscribetest.WantError(t, r.refused(999_999_999), "OTHERTOKEN 4611686018427387905")
}

func TestTwoTasksWithOneGroup(t *testing.T) {
	r := newRig(t, 1)
	r.source.Group = "readers"
	r.open(5)
	other := subscribetest.Named(t, "shop", "invoices")
	subscribetest.WantError(t, other.Refused(r.source, 9), "task shop/orders owns the consumer group",
		"another redis.group", r.source.Stream)
}

func TestUnknownStream(t *testing.T) {
	r := newRig(t, 0)
	subscribetest.WantError(t, r.refused(1), "no such stream", r.source.Stream, "redis.stream")
	if n := r.do("EXISTS", r.source.Stream, "{"+r.source.Stream+"}:shardctl:shardctl.shop.orders"); n != int64(0) {
		t.Error("something was created")
	}
	r.do("SET", r.source.Stream, "text")
	subscribetest.WantError(t, r.refused(1), "NOSTREAM string", "correct redis.stream")
}

func TestStart(t *testing.T) {
	for _, inStore := range []bool{false, true} {
		for start, want := range map[string]string{
			subscribe.Earliest: "0 1 2 new", subscribe.Latest: "new", "ID": "2 new", "": "0 1 2 new",
		} {
			t.Run(fmt.Sprintf("%s,%t", start, inStore), func(t *testing.T) {
				r := newRig(t, 2)
				middle := r.do("XINFO", "STREAM", r.source.Stream).(map[any]any)["last-generated-id"].(string)
				r.add("2")
				if r.source.Start = start; start == "ID" {
					r.source.Start = middle
				}
				if inStore {
					r.source.Offsets = subscribe.Store
				}
				s := r.open(1)
				r.add("new")
				n := len(strings.Fields(want))
				behind := int64(n)
				if start == "ID" {
					behind = -1 // the broker does not know
				}
				if lag := s.Lag(); lag.Messages != behind || lag.Seconds < 0 {
					t.Errorf("lag %+v, want %d messages", lag, behind)
				}
				s.Expect(want)
				if lag := s.Lag(); !inStore && lag.Messages != int64(n) {
					t.Errorf("lag %+v, want %d messages", lag, n)
				}
				// A position that nothing was acknowledged at is kept all the same.
				s.Close()
				r.open(2).Expect(want)
			})
		}
	}
}

func TestDeadLetter(t *testing.T) {
	for _, offsets := range []string{subscribe.Broker, subscribe.Store} {
		r := newRig(t, 0)
		r.source.Offsets = offsets
		r.do("XADD", r.source.Stream, "*", "body", "bad", "key", "k", "type", "text/plain", "a", "b")
		s := r.open(1)
		m := s.Take(1)[0]
		dead := "dead-" + r.source.Stream
		why := subscribe.Why{Source: "redis:x", ID: m.ID, Attempts: 3, Err: errors.New("always\nno")}
		if err := s.TryDeadLetter(dead, m, why); err != nil {
			t.Fatal(err)
		}
		got, err := r.client.XRange(subscribetest.Context(t), dead, "-", "+").Result()
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		v := got[0].Values
		if v["body"] != "bad" || v["key"] != "k" || v["type"] != "text/plain" || v["a"] != "b" ||
			v["Shardctl-Dead-Id"] != m.ID || v["Shardctl-Dead-Error"] != "always\nno" || len(v) != 9 {
			t.Errorf("%s: got %v", offsets, v)
		}
		r.do("SET", dead+"x", "text")
		subscribetest.WantError(t, s.TryDeadLetter(dead+"x", m, why), "WRONGTYPE", dead+"x")
	}
}

// Several hundred messages, some large, in one go and one by one.
func TestSizes(t *testing.T) {
	r := newRig(t, 0)
	big := strings.Repeat("x", 5<<20)
	for range 2 {
		r.add(big)
	}
	for n := range 1500 {
		r.add(fmt.Sprint(n))
	}
	s := r.open(1)
	got := s.Take(1502)
	if len(got[0].Body) != len(big) || string(got[1501].Body) != "1499" {
		t.Errorf("got %d bytes and %s", len(got[0].Body), got[1501].Body)
	}
	s.Ack(got...)
	if n := r.pending(); n != 0 {
		t.Errorf("%d entries are pending", n)
	}
}

func TestAcknowledgedElsewhere(t *testing.T) {
	r := newRig(t, 2)
	s := r.open(1)
	got := s.Take(2)
	r.do("XACK", r.source.Stream, "shardctl.shop.orders", strings.TrimPrefix(got[0].ID, r.source.Stream+"/"))
	subscribetest.WantError(t, s.TryAck(got...), "1 of 2 entries were no longer pending", "shardctl.shop.orders")
}

// What other consumers of the group left is taken over, and the log names them.
func TestOtherConsumers(t *testing.T) {
	r := newRig(t, 3)
	r.do("XGROUP", "CREATE", r.source.Stream, "old", "0")
	r.do("XREADGROUP", "GROUP", "old", "legacy", "COUNT", "2", "STREAMS", r.source.Stream, ">")
	r.source.Group = "old"
	s := r.open(1)
	got := s.Expect("0 1 2")
	if !got[1].Again || got[2].Again {
		t.Errorf("again is %t, %t", got[1].Again, got[2].Again)
	}
	r.Log.Want(t, "another consumer", "legacy")
}

func TestReceiveEndsWithItsContext(t *testing.T) {
	r := newRig(t, 1)
	r.source.Block = 20 * time.Second
	s := r.open(1)
	s.Take(1)
	ctx, cancel := context.WithCancel(subscribetest.Context(t))
	done := make(chan error, 1)
	go func() {
		_, err := s.Sub.Receive(ctx, 1)
		done <- err
	}()
	r.waitBlocked(1)
	began := time.Now()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	// The wait goes on: what comes meanwhile is for the next call.
	r.add("1")
	s.Expect("1")
	go func() {
		_, err := s.Sub.Receive(ctx, 1)
		done <- err
	}()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	s.Close()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestServerIsKilled(t *testing.T) {
	b := testbroker.Redis(t)
	r := rigAt(t, b.Addr, 3)
	s := r.open(1)
	got := s.Take(2)
	s.Ack(got[:1]...)
	b.Kill()
	subscribetest.WantError(t, s.Fails(1), b.Addr, r.source.Stream) // one had been read ahead
	subscribetest.WantError(t, s.TryAck(got[1:]...), b.Addr)
	subscribetest.WantError(t, r.refused(1), b.Addr, "connection refused")
	s.Close()
	b.Start()
	r.open(1).Expect("1 2")
}

func TestServerIsSilent(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	b := testbroker.Redis(t)
	r := rigAt(t, b.Addr, 3)
	s := r.open(1)
	got := s.Take(1)
	b.Freeze()
	defer b.Thaw()
	began := time.Now()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := s.Sub.Ack(short, got) // the connection has the same deadline, and may come first
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Ack went on for %s after its context", took)
	}
	subscribetest.WantError(t, s.TryAck(got...), "no answer within 5s", b.Addr)
	subscribetest.WantError(t, r.refused(1), "no answer within 5s", b.Addr)
	s.Take(2) // they were read ahead
	subscribetest.WantError(t, s.Fails(0), "no answer within", b.Addr)
	s.Close()
	b.Thaw()
	// The acknowledgements had been sent, and may be carried out or not.
	again := r.open(1).Take(2)
	if subscribetest.Texts(again) == "0 1" {
		again = append(again[1:], r.open(1).Take(3)[2])
	}
	if subscribetest.Texts(again) != "1 2" {
		t.Errorf("got %s", subscribetest.Texts(again))
	}
}

// delivered is how often messages were delivered before.
func delivered(messages []subscribe.Message) (counts []int) {
	for _, m := range messages {
		counts = append(counts, m.Delivered)
	}
	return counts
}

// The group counts the owners that had an entry, and crashed perhaps. What was only read ahead does not count.
func TestAttemptsThatTheGroupCounts(t *testing.T) {
	r := newRig(t, 70)
	for n := range 4 {
		s := r.open(int64(n + 1))
		got := delivered(s.Take(70)) // 64 may be in flight
		if want := append(slices.Repeat([]int{n}, 64), slices.Repeat([]int{0}, 6)...); !slices.Equal(got, want) {
			t.Errorf("owner %d: delivered %v times before", n+1, got)
		}
		s.Close()
	}
}

// An owner that has failed with an entry several times sets the group's count.
func TestAttemptsSetTheGroupsCount(t *testing.T) {
	r := newRig(t, 3)
	s := r.open(1)
	s.Keep(5, s.Expect("0 1 2")[1])
	s.Close()
	s = r.open(2)
	if got := delivered(s.Expect("0 1 2")); !slices.Equal(got, []int{1, 5, 1}) {
		t.Errorf("delivered %v times before", got)
	}
}

// Attempts that cannot be read, or are of entries before the position, do not count.
func TestAttemptsInTheCheckpoint(t *testing.T) {
	r := newRig(t, 2)
	r.source.Offsets = "store"
	s := r.open(1)
	got := s.Expect("0 1")
	s.Keep(4, got...)
	s.Ack(got[0])
	s.Close()
	value, _ := r.Store.Held()
	if n := strings.Count(string(value), ":4"); n != 1 {
		t.Errorf("the checkpoint is %s", value)
	}
	s = r.open(2)
	if got := delivered(s.Expect("1")); got[0] != 4 {
		t.Errorf("delivered %v times before", got)
	}
	s.Close()
	broken := strings.Replace(string(value), ":4", `:"4"`, 1)
	r.Store = subscribetest.NewStore([]byte(broken))
	if got := delivered(r.open(3).Expect("1")); got[0] != 0 {
		t.Errorf("delivered %v times before, by %s", got, broken)
	}
}
