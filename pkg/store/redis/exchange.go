package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

var (
	// errMoved says that the script did nothing, since the server has another identity.
	errMoved = errors.New("another Redis server answers, or replicas have synchronized since")
	// errReplica says that the server was no master any more.
	errReplica = errors.New("the Redis server is a replica, and no master")
	// errNotGood says that a reply came that counts for nothing: what it says may yet be undone.
	errNotGood = errors.New("no majority of the nodes has it under one identity of the master")
	// errNodes says that more servers hold the data than were configured.
	errNodes = errors.New("too many nodes")
	// errForeign says that a change was decided on another lineage than the one that the server follows.
	errForeign = errors.New("the store follows another lineage than the one that the change was decided on")
)

// reply is what a script returned, from behind the first word.
type reply struct {
	identity string // under which it ran
	now      int64  // the server's clock in Unix ms
	words    []any
	waited   time.Duration // of a good one: for how long such have come under the identity, as the gate keeps it
}

// text is a word; false: nil.
func (r reply) text(i int) (string, bool) {
	if i >= len(r.words) {
		return "", false
	}
	s, ok := r.words[i].(string)
	return s, ok
}

// exchange sends scripts to the master, and decides which replies count. Its methods may be called concurrently.
type exchange struct {
	keys    keyspace
	nodes   int  // the master among them
	named   bool // servers are known to clients by the addresses that they announce: by Sentinel
	timeout time.Duration
	causes  *dbstore.Causes
	look    []any
	acks    atomic.Int64 // how many replicas had to acknowledge the last reply
	log     logr.Logger
	warned  atomic.Pointer[string] // what was logged last, see warn
	tracker tracker

	gateClosed atomic.Bool // to the last claim that was answered
}

// good runs a script until its reply is good, or ctx ends. args are what follows the three arguments that all scripts
// have, for the identity that is sent. Before each try args is called again; its error ends all.
func (e *exchange) good(
	ctx context.Context, l *lane, s script, keys []string, args func(identity string) ([]any, error),
) (reply, error) {
	return e.repeat(ctx, func(ctx context.Context, identity string) (reply, error) {
		if err := e.prove(ctx, l, keys, identity); err != nil {
			return reply{}, err
		}
		more, err := args(identity)
		if err != nil {
			return reply{}, err
		}
		return e.tryGood(ctx, l, s, keys, identity, more)
	})
}

// plain runs a script that writes nothing. Its reply may show what is rolled back later, in another lineage.
func (e *exchange) plain(ctx context.Context, l *lane, s script, keys []string, args []any) (reply, error) {
	return e.repeat(ctx, func(ctx context.Context, identity string) (reply, error) {
		if err := e.prove(ctx, l, keys, identity); err != nil {
			return reply{}, err
		}
		var r reply
		err := l.use(ctx, func(c *redis.Client) (err error) {
			r, err = e.run(ctx, c, s, keys, identity, args, false)
			return err
		})
		return r, err
	})
}

// prove gets a first good reply in a lineage. An answer of a server that was never good is none, and names no
// lineage.
func (e *exchange) prove(ctx context.Context, l *lane, keys []string, identity string) error {
	if identity == "" || e.tracker.proven() == lineage(identity) {
		return nil
	}
	_, err := e.tryGood(ctx, l, readScript, keys, identity, nil)
	return err
}

// repeat calls try until it succeeds. Errors that another try does not change end it, as ctx does.
func (e *exchange) repeat(
	ctx context.Context, try func(ctx context.Context, identity string) (reply, error),
) (reply, error) {
	for tries := 1; ; tries++ {
		limited, cancel := context.WithTimeout(ctx, e.timeout)
		r, err := try(limited, e.tracker.expected())
		cancel()
		if err == nil || e.lasting(err) {
			return r, err
		}
		if errors.Is(err, errMoved) && tries < 3 {
			continue
		}
		if clock.Sleep(ctx, retryPause(tries)) != nil {
			return r, err
		}
	}
}

// lasting says that another try does not help.
func (e *exchange) lasting(err error) bool {
	return e.causes.Lasting(err) || errors.Is(err, errNodes) || errors.Is(err, errForeign)
}

// tryGood is one pipeline: the script, WAIT, and the second look.
func (e *exchange) tryGood(
	ctx context.Context, l *lane, s script, keys []string, identity string, args []any,
) (r reply, err error) {
	err = l.use(ctx, func(c *redis.Client) error {
		r, err = e.run(ctx, c, s, keys, identity, args, true)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	if !e.tracker.arrived(identity, r.waited, time.Now()) {
		return reply{}, errNotGood
	}
	return r, nil
}

// run sends one script, and where the reply is to be good WAIT and the second look with it.
func (e *exchange) run(
	ctx context.Context, c *redis.Client, s script, keys []string, identity string, args []any, good bool,
) (reply, error) {
	args = append([]any{identity, e.nodes, e.tracker.rise(), e.master(c)}, args...)
	good = good && identity != "" // such a script only says who the server is: there is nothing to wait for
	for _, whole := range []bool{false, true} {
		pipe := c.Pipeline()
		first := pipe.Do(ctx, s.command(whole, keys, args)...)
		var wait, look *redis.Cmd
		if good {
			if acks := max(int64(e.nodes/2), e.acks.Load()); acks > 0 {
				wait = pipe.Do(ctx, "WAIT", acks, waitFor(ctx))
			}
			look = pipe.Do(ctx, e.look...)
		}
		_, err := pipe.Exec(ctx) // each command has its own error
		if err != nil && first.Err() == nil && first.Val() == nil {
			return reply{}, err // but where the server refused the connection, the driver leaves them without one
		}
		if redis.HasErrorPrefix(first.Err(), "NOSCRIPT") {
			continue // this server has not run it yet
		}
		r, err := e.understand(first, identity)
		if err != nil || !good {
			return r, err
		}
		r.waited, err = e.confirm(wait, look, identity)
		return r, err
	}
	return reply{}, errors.New("the server forgets scripts at once")
}

// master is the address of the server that is asked, as the others show it in INFO; empty: it may have several.
func (e *exchange) master(c *redis.Client) string {
	host, port, err := net.SplitHostPort(c.Options().Addr)
	if err != nil || !e.named {
		return ""
	}
	return host + ":" + port
}

// waitFor is how many ms WAIT may wait: what the context leaves, less what the way back takes.
func waitFor(ctx context.Context) int64 {
	end, has := ctx.Deadline()
	if !has {
		return 1
	}
	return max(1, time.Until(end).Milliseconds()*9/10)
}

// understand takes a script's reply apart.
func (e *exchange) understand(cmd *redis.Cmd, identity string) (reply, error) {
	words, err := cmd.Slice()
	if err != nil {
		return reply{}, err
	}
	r := reply{identity: identity, words: words}
	status, _ := r.text(0)
	detail, _ := r.text(1)
	switch status {
	case "ok":
	case "moved":
		e.tracker.saw(detail)
		return reply{}, errMoved
	case "replica":
		e.tracker.saw("")
		return reply{}, errReplica
	case "nodes":
		err := fmt.Errorf("%w: %s", errNodes, e.tooMany(detail))
		e.warn(err)
		return reply{}, err
	case "hidden":
		return reply{}, fmt.Errorf("%w: INFO shows no role, run_id, master_replid, connected_slaves, sync_full or "+
			"sync_partial_ok: this service hides them, and without them a failover cannot be noticed", driver.ErrInvalid)
	default:
		return reply{}, fmt.Errorf("a script returned %.40q", status)
	}
	high, _ := r.text(2)
	r.now, err = strconv.ParseInt(detail, 10, 64)
	rev, errHigh := strconv.ParseInt(high, 10, 64)
	if err = errors.Join(err, errHigh); err != nil {
		return reply{}, fmt.Errorf("a script's clock: %w", err)
	}
	e.tracker.rise(rev)
	r.words = words[3:]
	return r, nil
}

// confirm reports whether the reply is good, from what came after it, and for how long good ones have come under the
// identity, as the gate keeps it.
func (e *exchange) confirm(wait, look *redis.Cmd, identity string) (waited time.Duration, err error) {
	text, err := look.Text()
	if err != nil {
		return 0, err
	}
	found, rest, _ := strings.Cut(text, " ")
	if found != identity {
		e.tracker.saw(found)
		return 0, errNotGood
	}
	seen, rest, _ := strings.Cut(rest, " ")
	want, acks := e.acknowledgements(seen), int64(0)
	e.acks.Store(want)
	if wait != nil {
		if acks, err = wait.Int64(); err != nil {
			return 0, err
		}
	}
	if acks < want {
		return 0, fmt.Errorf("%w: %d of %d replicas have answered WAIT", errNotGood, acks, want)
	}
	ms, at, _ := strings.Cut(rest, " ")
	if n, err := strconv.ParseUint(ms, 10, 31); err == nil && at == e.waitedAt(identity) {
		waited = time.Duration(n) * time.Millisecond
	}
	return waited, nil
}

// waitedAt names what the gate keeps a time for: an identity, and by how many nodes replies count as good.
func (e *exchange) waitedAt(identity string) string { return identity + " " + strconv.Itoa(e.nodes) }

// acknowledgements is by how many replicas a reply has to be acknowledged: with the master they are a majority of any
// nodes servers among all that have held the data. seen is how many those are, where they are more than nodes.
func (e *exchange) acknowledgements(seen string) int64 {
	all, err := strconv.ParseInt(seen, 10, 64)
	if err != nil {
		all = int64(e.nodes)
	}
	k := int64(e.nodes / 2)
	return max(k, all-k-1)
}

// tooMany says what to do about servers that are connected now.
func (e *exchange) tooMany(found string) string {
	return fmt.Sprintf("%s Redis servers hold the data, and nodes=%d is configured: detach what is too many, or stop "+
		"every replica of shardctl for the duration of a lease, delete the key %s, and raise nodes", found, e.nodes,
		e.keys.gate())
}

// tooManySeen says what to do about servers that the gate remembers: how many, and their addresses. Detaching them is
// not enough: each may still hold the data, and be promoted.
func (e *exchange) tooManySeen(found string) string {
	n, addresses, _ := strings.Cut(found, " ")
	return fmt.Sprintf("%s Redis servers have held the data (%s), and nodes=%d is configured: wipe those that are "+
		"not used any more and delete the fields met and seen of this key, or raise nodes, %s",
		n, strings.Join(strings.Fields(addresses), ", "), e.nodes, deleteIt)
}

// warn logs what an operator has to correct, once until a claim passes again. Callers repeat what is unknown, and say
// nothing of it.
func (e *exchange) warn(err error) {
	text := err.Error()
	if last := e.warned.Swap(&text); last == nil || *last != text {
		e.log.Error(err, "No key can be claimed in Redis as it is set up")
	}
}
