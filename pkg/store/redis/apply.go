package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// CAS implements [dbstore.Backend]. Changes of one kind are one script and one good reply. No other write comes between
// the test and the write of a script.
func (b *backend) CAS(ctx context.Context, changes []driver.Change, attempt int) ([]dbstore.Result, error) {
	if attempt > 0 {
		return nil, errWords
	}
	results := make([]dbstore.Result, len(changes))
	byKind := map[driver.Kind][]int{}
	for i, c := range changes {
		byKind[c.Doc.Kind] = append(byKind[c.Doc.Kind], i)
	}
	for _, kind := range driver.Kinds() {
		if places := byKind[kind]; len(places) > 0 {
			b := &batch{access: b.access, kind: kind, changes: changes, results: results}
			b.perform(ctx, places)
		}
	}
	return results, nil
}

// batch is changes of one kind on their way.
type batch struct {
	*access
	kind    driver.Kind
	changes []driver.Change
	open    []int // places of those without a result, of which the script that is under way has each
	results []dbstore.Result
}

// perform puts the results of the changes in these places. Where the gate was closed to the last claim, one claim is
// sent at first: a replica repeats thousands of them while it waits for the gate.
func (b *batch) perform(ctx context.Context, places []int) {
	var claims, others []int
	for _, place := range places {
		if b.changes[place].Claim > 0 {
			claims = append(claims, place)
		} else {
			others = append(others, place)
		}
	}
	if len(claims) < 2 || !b.gateClosed.Load() {
		b.send(ctx, places)
		return
	}
	b.send(ctx, append(others, claims[0]))
	if first := b.results[claims[0]]; errors.Is(first.Err, errClosed) {
		for _, place := range claims[1:] {
			b.results[place] = first
		}
		return
	}
	b.send(ctx, claims[1:])
}

// send performs the changes in these places with one script, and puts their results in place.
func (b *batch) send(ctx context.Context, places []int) {
	b.open = places
	r, err := b.good(ctx, b.laneOf(b.kind), applyScript, b.keys.of(b.kind), b.args)
	if err == nil && len(r.words) != 2*len(b.open) {
		err = errWords
	}
	for n, place := range b.open {
		if err != nil {
			b.results[place] = dbstore.Result{Err: err, Lineage: b.tracker.proven()}
			continue
		}
		status, _ := r.text(2 * n)
		text, _ := r.text(2*n + 1)
		b.results[place] = b.result(b.changes[place], status, text)
		b.results[place].Lineage = lineage(r.identity)
	}
}

// args are those of the script under an identity. Changes that were decided on in another lineage are left
// out, for good.
func (b *batch) args(identity string) ([]any, error) {
	if identity != "" {
		all := b.open
		b.open = nil
		for _, place := range all {
			if h := b.changes[place].Lineage; h != "" && h != lineage(identity) {
				b.results[place] = dbstore.Result{Err: errForeign, Lineage: lineage(identity)}
			} else {
				b.open = append(b.open, place)
			}
		}
		if len(b.open) == 0 {
			return nil, errForeign
		}
	}
	good := b.tracker.age(identity, time.Now()).Milliseconds()
	args := []any{string(b.kind), notified(b.kind), b.channel, indexes(b.kind), good}
	for _, place := range b.open {
		args = append(args, b.changeArgs(b.changes[place])...)
	}
	return args, nil
}

func (b *batch) changeArgs(c driver.Change) []any {
	op, carried := "put", any(nil)
	switch c.Op {
	case driver.Put:
		b.tracker.rise(c.Doc.Rev)
		carried = encode(c.Doc)
	case driver.Delete:
		op, carried = "delete", ""
	case driver.Increment:
		b.tracker.rise(c.Doc.Rev)
		op, carried = "increment", c.Doc.Rev
	}
	lease := int64(0)
	if c.Claim > 0 {
		lease = max(1, c.Claim.Milliseconds())
	}
	return []any{op, c.Doc.ID, c.IfRev, lease, carried}
}

// result is what became of a change that the script has looked at.
func (b *batch) result(c driver.Change, status, text string) (r dbstore.Result) {
	if c.Claim > 0 {
		b.gateClosed.Store(status == "closed")
	}
	switch status {
	case "applied":
		if c.Claim > 0 {
			b.warned.Store(nil)
		}
		return dbstore.Result{Written: true}
	case "closed":
		return dbstore.Result{Err: b.closed(c, text)}
	}
	if text != "" {
		d, err := decode(c.Doc.Kind, c.Doc.ID, text)
		if r.Found, r.Malformed = &d, err; err == nil {
			b.tracker.rise(d.Rev)
		}
	}
	r.Refused = status == "refused" // its revision is below the gate's: nothing was asked of the document
	return r
}

// deleteIt is what an operator does to change what the gate keeps.
const deleteIt = "stop every replica of shardctl for the duration of a lease and delete this key"

// errClosed is in the error of each change that does not pass the gate.
var errClosed = errors.New("closed")

// closed says why a change does not pass the gate.
func (b *batch) closed(c driver.Change, why string) error {
	word, value, _ := strings.Cut(why, " ")
	var text string
	switch word {
	case "nodes":
		text = fmt.Sprintf("nodes=%s is kept in it, and nodes=%d is configured: configure that number, or %s", value,
			b.nodes, deleteIt)
	case "seen":
		text = b.tooManySeen(value)
	case "lease":
		text = fmt.Sprintf("a lease of %s ms is kept in it, and this replica has %v: configure the same lease for "+
			"all, or %s", value, c.Claim, deleteIt)
	default:
		text = fmt.Sprintf("the master or its replicas changed: keys are claimed again in %v at the earliest",
			max(0, c.Claim-b.tracker.age(b.tracker.expected(), time.Now())).Round(time.Millisecond))
	}
	err := fmt.Errorf("%w: the gate %s is %w: %s", driver.ErrUnavailable, b.keys.gate(), errClosed, text)
	if word == "gate" {
		return fmt.Errorf("%w: %w", driver.ErrPaused, err)
	}
	err = fmt.Errorf("%w: %w", driver.ErrSettings, err) // it stays closed
	b.warn(err)
	return err
}

// gate is what the gate keeps. Fields are empty where it keeps nothing.
type gate struct {
	Identity string `redis:"identity"` // at which keys may be claimed
	Lease    string `redis:"lease"`    // in ms
	Nodes    string `redis:"nodes"`    // as configured when it was opened
	Seen     string `redis:"seen"`     // how many servers scripts have met, where that was more than nodes
	Met      string `redis:"met"`      // their addresses, each between spaces
}

// readGate reads the gate as the master has it.
func (a *access) readGate(ctx context.Context) (g gate, err error) {
	err = a.others.use(ctx, func(c *redis.Client) error {
		return c.HMGet(ctx, a.keys.gate(), "identity", "lease", "nodes", "seen", "met").Scan(&g)
	})
	return g, err
}

// shut says whether the gate stays closed until an operator deletes its key.
func (g gate) shut(nodes int) bool {
	seen, err := strconv.Atoi(g.Seen)
	return err == nil && seen > nodes
}

// settings are what people look for when no key is claimed. identity is that of the server that was asked.
func (g gate) settings(nodes int, identity string) []driver.Setting {
	state := "closed: no key was claimed since the master or its replicas changed"
	if g.Identity == identity {
		state = "open"
	}
	lease := "none yet"
	if ms, err := strconv.ParseInt(g.Lease, 10, 64); err == nil {
		lease = (time.Duration(ms) * time.Millisecond).String()
	}
	met := "no"
	if g.Seen != "" {
		met = strings.TrimSpace(g.Seen + g.Met)
	}
	return []driver.Setting{
		{Name: "gate", Value: state, Holds: true},
		{Name: "lease kept in the gate", Value: lease, Holds: true},
		{
			Name: "too many nodes seen", Value: met, Want: "at most " + strconv.Itoa(nodes), Holds: !g.shut(nodes),
		},
	}
}
