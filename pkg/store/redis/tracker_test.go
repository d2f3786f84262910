package redis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The time for the gate counts from the first good reply under an identity. Any other that is seen begins it again,
// also one that was known before.
func TestAnotherIdentityBeginsTheTimeAgain(t *testing.T) {
	const one, two = "run/repl/1+0", "run/repl/1+1"
	var c tracker
	long := time.Now().Add(-time.Hour)
	c.saw(one)
	now := long.Add(time.Hour)
	if got := c.age(one, now); got != 0 {
		t.Errorf("age %v without a good reply", got)
	}
	if !c.arrived(one, 0, long) || !c.arrived(one, 0, now) || c.age(one, now) != time.Hour {
		t.Error("the age does not count from the first of two good replies")
	}
	if got := c.age(two, now); got != 0 {
		t.Errorf("age %v under another identity", got)
	}
	c.saw(two)
	if c.arrived(one, 0, long) {
		t.Error("a good reply under the identity of before counts")
	}
	c.saw(one) // the other connection's reply comes late
	if got := c.age(one, now); got != 0 {
		t.Errorf("age %v: the time before counts again", got)
	}
	if c.proven() != "run/repl" {
		t.Errorf("proven %q", c.proven())
	}
	c.arrived(one, 0, now)
	if got := c.age(one, now.Add(time.Minute)); got != time.Minute {
		t.Errorf("age %v, want what has passed since the good reply", got)
	}
}

// What the gate keeps is the time of all: it counts on from there, and never adds to what has passed here meanwhile.
func TestTheTimeOfOthersCountsOn(t *testing.T) {
	const one = "run/repl/1+0"
	var c tracker
	now := time.Now()
	c.saw(one)
	age := func(shown, want time.Duration) {
		t.Helper()
		c.arrived(one, shown, now)
		if got := c.age(one, now); got != want {
			t.Errorf("age %v after %v were shown, want %v", got, shown, want)
		}
		now = now.Add(time.Second)
	}
	age(5*time.Second, 5*time.Second)
	age(5*time.Second, 6*time.Second)
	age(6*time.Second, 7*time.Second)
	age(10*time.Second, 10*time.Second)
	c.saw("run/repl/1+1")
	c.saw(one)
	if got := c.age(one, now); got != 0 {
		t.Errorf("age %v without a good reply since another identity", got)
	}
	age(0, 0)
}

// The gate's time counts under the identity and with the number of nodes for which it was kept, and nothing else does.
func TestWhatTheGateKeepsIsNamed(t *testing.T) {
	const identity = "run/repl/2+0"
	for kept, want := range map[string]time.Duration{
		"1500 " + identity + " 1":                 1500 * time.Millisecond,
		"1500 " + identity + " 3":                 0,
		"1500 run/repl/2+1 1":                     0,
		"1500 " + identity:                        0,
		"1500 ":                                   0,
		" " + identity + " 1":                     0,
		"-5 " + identity + " 1":                   0,
		"1e9 " + identity + " 1":                  0,
		"99999999999999999999 " + identity + " 1": 0,
		"": 0,
	} {
		e := &exchange{nodes: 1}
		e.tracker.saw(identity)
		look := redis.NewCmd(t.Context())
		look.SetVal(identity + "  " + kept)
		if got, err := e.confirm(nil, look, identity); got != want || err != nil {
			t.Errorf("%q: %v, %v, want %v", kept, got, err, want)
		}
	}
}

// A reply is good when enough replicas have it and the identity is the same afterwards.
func TestASecondLookConfirmsAReply(t *testing.T) {
	const identity = "run/repl/2+0"
	word := func(value any, err error) *redis.Cmd {
		cmd := redis.NewCmd(t.Context())
		cmd.SetVal(value)
		cmd.SetErr(err)
		return cmd
	}
	broken := errors.New("connection reset")
	for name, tc := range map[string]struct {
		wait, look *redis.Cmd
		want       error
	}{
		"good":                        {word(int64(1), nil), word(identity+" ", nil), nil},
		"good of four servers":        {word(int64(2), nil), word(identity+" 4", nil), nil},
		"too few of four servers":     {word(int64(1), nil), word(identity+" 4", nil), errNotGood},
		"too few of five servers":     {word(int64(2), nil), word(identity+" 5", nil), errNotGood},
		"too few replicas":            {word(int64(0), nil), word(identity+" ", nil), errNotGood},
		"a replica has come since":    {word(int64(2), nil), word("run/repl/3+0 ", nil), errNotGood},
		"no master any more":          {word(int64(1), nil), word("", nil), errNotGood},
		"no answer to the first look": {word(nil, broken), word(identity+" ", nil), broken},
		"no answer to the second":     {word(int64(1), nil), word(nil, broken), broken},
	} {
		e := &exchange{nodes: 3}
		e.tracker.saw(identity)
		e.tracker.arrived(identity, 0, time.Now().Add(-time.Hour))
		if _, err := e.confirm(tc.wait, tc.look, identity); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		found, _ := tc.look.Text()
		if same := tc.look.Err() != nil ||
			strings.HasPrefix(found, identity+" "); e.tracker.age(identity, time.Now()) > 0 != same {
			t.Errorf("%s: the time goes on: %v, want %v", name, !same, same)
		}
	}
}
