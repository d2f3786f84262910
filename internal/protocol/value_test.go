package protocol_test

import (
	"testing"

	"github.com/shardctl/shardctl/internal/protocol"
)

// aValue drives one value's machine; the store's clock stands at 1000.
type aValue struct {
	t *testing.T
	protocol.Value
}

// newValue is the value under token 9.
func newValue(t *testing.T) *aValue {
	t.Helper()
	return &aValue{t: t, Value: protocol.Value{Token: 9}}
}

func (v *aValue) do(ev protocol.ValueEvent) protocol.ValueAction {
	ev.Clock = 1000
	var act protocol.ValueAction
	v.Value, act = v.Step(ev)
	return act
}

func (v *aValue) want(op protocol.ValueOp) protocol.ValueAction {
	return v.do(protocol.ValueEvent{Kind: protocol.ValueWanted, Op: op})
}

func (v *aValue) found(rev, writer int64) protocol.ValueAction {
	return v.do(protocol.ValueEvent{Kind: protocol.ValueRead, OK: true, Rev: rev, Writer: writer})
}

func (v *aValue) answer(s protocol.Status) protocol.ValueAction {
	return v.do(protocol.ValueEvent{Kind: protocol.ValueAnswer, Status: s})
}

func (v *aValue) wants(got protocol.ValueAction, kind protocol.ValueActionKind, revs ...int64) {
	v.t.Helper()
	want := protocol.ValueAction{Kind: kind}
	if len(revs) == 2 {
		want.IfRev, want.NewRev = revs[0], revs[1]
	}
	if got.Repeat = false; got != want {
		v.t.Fatalf("%+v, want %+v; the machine is %+v", got, want, v.Value)
	}
}

// fencedValue is one whose token 9 stands in the document, at revision 1000.
func fencedValue(t *testing.T) *aValue {
	t.Helper()
	v := newValue(t)
	v.wants(v.want(protocol.GetValue), protocol.ReadDoc)
	v.wants(v.found(5, 7), protocol.WriteDoc, 5, 1000)
	v.wants(v.answer(protocol.Applied), protocol.ValueDone)
	return v
}

func TestValueFirstReadWritesTheToken(t *testing.T) {
	t.Parallel()
	v := fencedValue(t)
	v.wants(v.want(protocol.GetValue), protocol.ReadDoc)
	v.wants(v.found(1000, 9), protocol.ValueDone)
	v.wants(v.want(protocol.SetValue), protocol.WriteDoc, 1000, 1001)
	v.wants(v.answer(protocol.Applied), protocol.ValueDone)

	none := newValue(t)
	none.wants(none.want(protocol.GetValue), protocol.ReadDoc)
	none.wants(none.found(0, 0), protocol.WriteDoc, 0, 1000)
}

func TestValueSetWithoutAReadBefore(t *testing.T) {
	t.Parallel()
	v := newValue(t)
	v.wants(v.want(protocol.SetValue), protocol.ReadDoc)
	v.wants(v.found(5, 7), protocol.WriteDoc, 5, 1000)
	v.wants(v.answer(protocol.Applied), protocol.ValueDone)
	v.wants(v.want(protocol.GetValue), protocol.ReadDoc)
	v.wants(v.found(1000, 9), protocol.ValueDone)
}

func TestValueRefusesASmallerToken(t *testing.T) {
	t.Parallel()
	for _, op := range []protocol.ValueOp{protocol.GetValue, protocol.SetValue} {
		v := newValue(t)
		v.wants(v.want(op), protocol.ReadDoc)
		v.wants(v.found(5, 10), protocol.ValueLost)

		v = fencedValue(t)
		v.wants(v.want(protocol.SetValue), protocol.WriteDoc, 1000, 1001)
		v.wants(v.answer(protocol.Refused), protocol.ReadDoc)
		v.wants(v.found(1002, 10), protocol.ValueLost)
		v.wants(v.want(op), protocol.ReadDoc)
		v.wants(v.found(1002, 10), protocol.ValueLost)
	}
}

func TestValueUnansweredIsRepeated(t *testing.T) {
	t.Parallel()
	v := newValue(t)
	v.wants(v.want(protocol.SetValue), protocol.ReadDoc)
	if act := v.do(protocol.ValueEvent{Kind: protocol.ValueRead}); act.Kind != protocol.ReadDoc || !act.Repeat {
		t.Fatalf("%+v, want the read again", act)
	}
	first := v.found(5, 7)
	again := v.answer(protocol.Unknown)
	if first.Repeat || !again.Repeat || again.IfRev != first.IfRev || again.NewRev != first.NewRev {
		t.Fatalf("%+v after %+v, want the very same again", again, first)
	}
	v.wants(v.answer(protocol.Applied), protocol.ValueDone)
}

// A refusal by what an abandoned write of the same token left is no loss.
func TestValueRefusedByItsOwnToken(t *testing.T) {
	t.Parallel()
	v := newValue(t)
	v.wants(v.want(protocol.SetValue), protocol.ReadDoc)
	v.wants(v.found(5, 7), protocol.WriteDoc, 5, 1000)
	v.wants(v.answer(protocol.Refused), protocol.ReadDoc)
	v.wants(v.found(1000, 9), protocol.WriteDoc, 1000, 1001)
}

// What was abandoned unanswered may still land. So the next read writes, which makes that impossible.
func TestValueAbandoned(t *testing.T) {
	t.Parallel()
	v := fencedValue(t)
	v.wants(v.want(protocol.SetValue), protocol.WriteDoc, 1000, 1001)
	v.wants(v.do(protocol.ValueEvent{Kind: protocol.ValueAbandoned}), protocol.NoValueAction)
	v.wants(v.answer(protocol.Applied), protocol.NoValueAction)
	v.wants(v.want(protocol.GetValue), protocol.ReadDoc)
	v.wants(v.found(1000, 9), protocol.WriteDoc, 1000, 1001)

	v = fencedValue(t)
	v.wants(v.want(protocol.GetValue), protocol.ReadDoc)
	v.wants(v.do(protocol.ValueEvent{Kind: protocol.ValueAbandoned}), protocol.NoValueAction)
	v.wants(v.want(protocol.SetValue), protocol.WriteDoc, 1000, 1001) // nothing was sent
}

// Somebody deleted the document.
func TestValueDeleted(t *testing.T) {
	t.Parallel()
	v := fencedValue(t)
	v.wants(v.want(protocol.GetValue), protocol.ReadDoc)
	v.wants(v.found(0, 0), protocol.WriteDoc, 0, 1000)
}
