package linearizability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shardctl/shardctl/pkg/elect"
)

// kept is the value of a key as the model has it: the number that was set last, 0 for none, and the largest token that
// has read or set it.
type kept struct {
	number int
	token  int64
}

// valueStep is one call about a value that succeeded, or a set that may have happened.
type valueStep struct {
	sets   bool
	number int
	token  int64
}

// valueModel is a register that refuses who comes under a smaller token than somebody before.
var valueModel = porcupine.Model{
	Init: func() any { return kept{} },
	Step: func(state, input, _ any) (bool, any) {
		k, s := state.(kept), input.(valueStep)
		return s.token >= k.token && (s.sets || s.number == k.number), kept{s.number, s.token}
	},
	DescribeOperation: func(input, _ any) string { return input.(valueStep).String() },
	DescribeState: func(state any) string {
		return fmt.Sprintf("%d, token %d", state.(kept).number, state.(kept).token)
	},
}

func (s valueStep) String() string {
	if s.sets {
		return fmt.Sprintf("token %d sets %d", s.token, s.number)
	}
	return fmt.Sprintf("token %d reads %d", s.token, s.number)
}

// valueCall is one call about a value.
type valueCall struct {
	span
	valueStep
	who int
	err error // of a set it may or may not have happened
}

// value is the history of a key's value.
type value struct {
	mu    sync.Mutex
	calls []valueCall
	sets  int
}

func (v *value) note(c valueCall) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls = append(v.calls, c)
}

// number is one that no one else sets.
func (v *value) number() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sets++
	return v.sets
}

// steps are the calls that matter. A read that failed does not: its token may stand in the document, which only makes
// others fail. A set that failed may happen at any time until the end, and matters when somebody has read it.
func (v *value) steps() []porcupine.Operation {
	var ops []porcupine.Operation
	for _, c := range v.calls {
		op := porcupine.Operation{ClientId: c.who, Input: c.valueStep, Call: c.call, Return: c.end}
		if c.err != nil {
			op.Return = forever
			if !c.sets || !v.read(c.number) {
				continue
			}
		}
		ops = append(ops, op)
	}
	return ops
}

func (v *value) read(number int) bool {
	return slices.ContainsFunc(v.calls, func(c valueCall) bool { return !c.sets && c.err == nil && c.number == number })
}

func (v *value) judge(name string) []finding {
	var lines []line
	for _, c := range v.calls {
		text := c.String()
		if c.err != nil {
			text += ": " + strings.ReplaceAll(c.err.Error(), "\n", "; ")
		}
		lines = append(lines, line{c.call, c.end, fmt.Sprint("e", c.who), text})
	}
	return judge(valueModel, name, v.steps(), lines)
}

// valueUser reads and sets a key's value, as a run does, and those before it that have not noticed their end.
type valueUser struct {
	x      *elector
	of     *value
	random *rand.Rand // nil: it reads
	under  []tokenValue
}

// tokenValue is the value under one token.
type tokenValue struct {
	token int64
	value elect.Checkpoint
}

// begin takes the value under the lease's token.
func (u *valueUser) begin(lease *elect.Lease) {
	u.under = append(u.under, tokenValue{lease.Token(), lease.Checkpoint()})
}

// use makes a call or two, now and then under a token that is not the newest, or with a limit on its time.
func (u *valueUser) use(ctx context.Context) {
	if u.random == nil {
		u.call(ctx, u.under[0], false)
		return
	}
	for range 1 + u.random.IntN(2) {
		on := u.under[len(u.under)-1]
		if u.random.IntN(4) == 0 {
			on = u.under[u.random.IntN(len(u.under))]
		}
		limited, cancel := context.WithCancel(ctx)
		if u.random.IntN(4) == 0 {
			cancel()
			limited, cancel = context.WithTimeout(ctx, upTo(u.random, 20*time.Millisecond))
		}
		u.call(limited, on, u.random.IntN(2) == 0)
		cancel()
	}
}

func (u *valueUser) call(ctx context.Context, on tokenValue, sets bool) {
	c := valueCall{who: u.x.n, valueStep: valueStep{sets: sets, token: on.token}}
	if c.call = now(); sets {
		c.number = u.of.number()
		c.err = on.value.SetValue(ctx, fmt.Append(nil, c.number))
	} else {
		c.number, c.err = numberOf(on.value.Value(ctx))
	}
	end, lives := u.x.alive(now())
	if c.end = end; !lives {
		c.err = errCut // no caller saw it
	}
	if c.call <= c.end { // else it was dead before
		u.of.note(c)
	}
}

func numberOf(value []byte, err error) (number int, _ error) {
	if err != nil || len(value) == 0 {
		return 0, err
	}
	if _, err := fmt.Sscan(string(value), &number); err != nil {
		return -1, nil //nolint:nilerr // what was never set: no order explains it
	}
	return number, nil
}
