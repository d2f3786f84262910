package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
)

func validate(changes []store.Change) error {
	if err := store.ValidateChanges(changes); err != nil {
		return err
	}
	for i, c := range changes {
		if c.Op == store.Put && c.Doc.Rev > store.MaxRev {
			return fmt.Errorf("change %d: %s %.80q: %w: Rev %d, at most %d", i, c.Doc.Kind, c.Doc.ID,
				store.ErrMalformed,
				c.Doc.Rev, int64(store.MaxRev))
		}
	}
	return nil
}

// apply performs valid changes. Those of one kind, up to [store.MaxBatch], are one script and one good reply.
func (a *access) apply(ctx context.Context, changes []store.Change) []store.Outcome {
	outcomes := make([]store.Outcome, len(changes))
	byKind := map[store.Kind][]int{}
	for i, c := range changes {
		byKind[c.Doc.Kind] = append(byKind[c.Doc.Kind], i)
	}
	for _, kind := range store.Kinds() {
		for places := range slices.Chunk(byKind[kind], store.MaxBatch) {
			b := &batch{access: a, kind: kind, changes: changes, open: places, outcomes: outcomes}
			b.send(ctx)
		}
	}
	return outcomes
}

// batch is changes of one kind on their way.
type batch struct {
	*access
	kind     store.Kind
	changes  []store.Change
	open     []int // places of those without an outcome, of which the script that is under way has each
	outcomes []store.Outcome
}

// send performs the changes and puts their outcomes in place.
func (b *batch) send(ctx context.Context) {
	r, err := b.good(ctx, b.laneOf(b.kind), applyScript, b.keys.of(b.kind), b.args)
	if err == nil && len(r.words) != 2*len(b.open) {
		err = errWords
	}
	if err != nil {
		b.unknown(b.open, b.course.proven(), err)
		return
	}
	for n, place := range b.open {
		status, _ := r.text(2 * n)
		text, _ := r.text(2*n + 1)
		b.outcomes[place] = b.outcome(b.changes[place], status, text)
		b.outcomes[place].History = lineage(r.identity)
	}
}

// args are those of the script under an identity. Changes that were decided on in another course of writes are left
// out, for good.
func (b *batch) args(identity string) ([]any, error) {
	if identity != "" {
		var foreign, rest []int
		for _, place := range b.open {
			if h := b.changes[place].History; h != "" && h != lineage(identity) {
				foreign = append(foreign, place)
			} else {
				rest = append(rest, place)
			}
		}
		b.unknown(foreign, lineage(identity), errForeign)
		b.open = rest
		if len(rest) == 0 && len(foreign) > 0 {
			return nil, errForeign
		}
	}
	good := b.course.age(identity, time.Now()).Milliseconds()
	args := []any{string(b.kind), notified(b.kind), b.channel, indexes(b.kind), good}
	for _, place := range b.open {
		args = append(args, b.changeArgs(b.changes[place])...)
	}
	return args, nil
}

func (b *batch) changeArgs(c store.Change) []any {
	op, carried := "put", any(nil)
	switch c.Op {
	case store.Put:
		b.course.rise(c.Doc.Rev)
		carried = encode(c.Doc)
	case store.Delete:
		op, carried = "delete", ""
	case store.Increment:
		b.course.rise(c.Doc.Rev)
		op, carried = "increment", c.Doc.Rev
	}
	lease := int64(0)
	if c.Claim > 0 {
		lease = max(1, c.Claim.Milliseconds())
	}
	return []any{op, c.Doc.ID, c.IfRev, lease, carried}
}

// outcome is what became of a change that the script has looked at.
func (b *batch) outcome(c store.Change, status, text string) store.Outcome {
	if status == "applied" {
		if c.Claim > 0 {
			b.warned.Store(nil)
		}
		return store.Outcome{Status: store.Applied}
	}
	if status == "closed" {
		return store.Outcome{Status: store.Unknown, Err: b.closed(c, text)}
	}
	var found *store.Doc
	if text != "" {
		d, err := decode(c.Doc.Kind, c.Doc.ID, text)
		if err == nil {
			b.course.rise(d.Rev)
			found = &d
		} else {
			b.unreadable.Report(c.Doc.Kind, c.Doc.ID, err)
		}
	}
	if status == "refused" { // its revision is below the gate's: nothing was asked of the document
		return store.Outcome{Status: store.Refused, Doc: found}
	}
	out, holds := store.Judge(c, found)
	if holds { // the script has found a condition that does not hold
		return store.Outcome{Status: store.Unknown, Err: fmt.Errorf("%w: %w", store.ErrUnavailable, errWords)}
	}
	return out
}

// deleteIt is what an operator does to change what the gate keeps.
const deleteIt = "stop every replica of shardctl for the duration of a lease and delete this key"

// closed says why a change does not pass the gate.
func (b *batch) closed(c store.Change, why string) error {
	word, value, _ := strings.Cut(why, " ")
	var text string
	switch word {
	case "nodes":
		text = fmt.Sprintf("nodes=%s is kept in it, and nodes=%d is configured: configure that number, or %s", value,
			b.nodes,
			deleteIt)
	case "seen":
		text = b.tooManySeen(value)
	case "lease":
		text = fmt.Sprintf("a lease of %s ms is kept in it, and this replica has %v: configure the same lease for all, or %s",
			value, c.Claim, deleteIt)
	default:
		text = fmt.Sprintf("the master or its replicas changed: keys are claimed again in %v at the earliest",
			max(0, c.Claim-b.course.age(b.course.expected(), time.Now())).Round(time.Millisecond))
	}
	err := fmt.Errorf("%w: the gate %s is closed: %s", store.ErrUnavailable, b.keys.gate(), text)
	if word != "gate" {
		b.warn(err)
	}
	return err
}

// unknown is the outcome of changes at these places. history is the course of writes that the store follows, as far as
// is known.
func (b *batch) unknown(places []int, history string, cause error) {
	err := b.translate("apply", cause)
	if !errors.Is(err, store.ErrInvalid) && !errors.Is(err, store.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	for _, place := range places {
		b.outcomes[place] = store.Outcome{Status: store.Unknown, Err: err, History: history}
	}
}
