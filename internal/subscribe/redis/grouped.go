package redis

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

// grouped is a subscription whose position is a consumer group's.
type grouped struct {
	common
	owner owner
	// at is where the group is. Only the fetch that is under way looks at it.
	at position
	// claimed is the last of the pending entries that were given again, until finished says that none is left.
	claimed  id
	finished bool
	// inFlight is how many of them the last owner may have delivered at most. It had only read the others ahead.
	inFlight int
}

// openGrouped takes the group over from its last owner, and creates it where there is none. That there was one is known
// by the hash beside the stream, and with the lock where the hash is gone, too.
func openGrouped(ctx context.Context, c common, o owner, kept subscribe.Checkpoint, inFlight int) (*grouped, error) {
	g := &grouped{common: c, owner: o, inFlight: inFlight}
	g.reader = newReader(g.fetch)
	known, err := o.own(ctx, g.link)
	if err != nil {
		return nil, err
	}
	was, err := recall.ReadMark(ctx, kept, "stream "+g.stream+", group "+o.group)
	if err != nil {
		return nil, err
	}
	if err := g.takeOver(ctx, known || was.Had()); err != nil {
		return nil, err
	}
	return g, was.Keep(ctx, "")
}

// takeOver finds the group, or creates it. Known says that there was one.
func (g *grouped) takeOver(ctx context.Context, known bool) error {
	e, err := g.extent(ctx)
	if err != nil {
		return err
	}
	info, found, err := g.group(ctx)
	if err != nil {
		return err
	}
	if !found {
		return g.create(ctx, e, known)
	}
	if g.at.last, err = parseID(info.LastDeliveredID); err != nil {
		return err
	}
	if g.at.read = info.EntriesRead; g.at.read == 0 && g.at.last != (id{}) {
		g.at.read = unknown // the client gives 0 for it
	}
	if what := e.lost(g.at); what != "" {
		if err := g.move(ctx, e, what); err != nil {
			return err
		}
	}
	if info.Pending > 0 {
		err = g.claim(ctx, e)
	}
	if err == nil {
		err = g.warn(ctx)
	}
	return err
}

// group is what the broker says of the group.
func (g *grouped) group(ctx context.Context) (info redis.XInfoGroup, found bool, err error) {
	all, err := ask(ctx, g.link, func(ctx context.Context) ([]redis.XInfoGroup, error) {
		return g.client.XInfoGroups(ctx, g.stream).Result()
	})
	i := slices.IndexFunc(all, func(i redis.XInfoGroup) bool { return i.Name == g.owner.group })
	if i < 0 {
		return redis.XInfoGroup{}, false, err
	}
	return all[i], true, nil
}

// create makes the group. Known says that there was one before, so that its position is lost.
func (g *grouped) create(ctx context.Context, e extent, known bool) (err error) {
	if known {
		g.at, err = g.recover(e, "the consumer group "+g.owner.group+" is gone, and its position with it: "+
			"it was destroyed, or the stream was made again")
	} else {
		g.at, err = g.begin(e)
	}
	if err != nil {
		return err
	}
	_, err = g.owner.do(ctx, g.link, g.stream,
		"XGROUP", "CREATE", g.stream, g.owner.group, g.at.last.String(), "ENTRIESREAD", g.at.read)
	return err
}

// move sets the group's position after entries were lost.
func (g *grouped) move(ctx context.Context, e extent, what string) (err error) {
	if g.at, err = g.recover(e, what); err != nil {
		return err
	}
	_, err = g.owner.do(ctx, g.link, g.stream,
		"XGROUP", "SETID", g.stream, g.owner.group, g.at.last.String(), "ENTRIESREAD", g.at.read)
	return err
}

// claim takes the pending entries of all consumers. Those that are no longer in the stream are missing.
func (g *grouped) claim(ctx context.Context, e extent) error {
	oldest, _, err := g.pending(ctx)
	if err != nil {
		return err
	}
	if oldest.before(e.first) || e.length == 0 {
		what := fmt.Sprintf("entries from %s on were given, and removed before they were acknowledged", oldest)
		if _, err := g.recover(e, what); err != nil {
			return err
		}
	}
	for cursor := "0-0"; ; {
		reply, err := g.owner.do(ctx, g.link, g.stream, "XAUTOCLAIM", g.stream, g.owner.group, g.owner.task,
			0, cursor, "COUNT", 1000, "JUSTID")
		if err != nil {
			return err
		}
		parts, _ := reply.([]any)
		if len(parts) < 2 {
			return g.explain(errors.New("unexpected answer to XAUTOCLAIM"))
		}
		if cursor, _ = parts[0].(string); cursor == "0-0" || cursor == "" {
			return nil
		}
	}
}

// pending is the oldest entry that was given and not acknowledged, and how many there are.
func (g *grouped) pending(ctx context.Context) (oldest id, count int64, err error) {
	p, err := ask(ctx, g.link, func(ctx context.Context) (*redis.XPending, error) {
		return g.client.XPending(ctx, g.stream, g.owner.group).Result()
	})
	if err != nil || p.Count == 0 {
		return id{}, 0, err
	}
	oldest, err = parseID(p.Lower)
	return oldest, p.Count, err
}

// warn says who else consumes in the group: order is not kept among several.
func (g *grouped) warn(ctx context.Context) error {
	all, err := ask(ctx, g.link, func(ctx context.Context) ([]redis.XInfoConsumer, error) {
		return g.client.XInfoConsumers(ctx, g.stream, g.owner.group).Result()
	})
	for _, consumer := range all {
		if consumer.Name != g.owner.task {
			g.log.Info("The consumer group has another consumer, which takes messages away", "names", consumer.Name)
		}
	}
	return err
}

// fetch gives what was pending when the subscription was opened, then what is new.
func (g *grouped) fetch(count int) ([]entry, error) {
	ctx := context.Background() // ends with the connection
	for !g.finished {
		entries, err := g.owner.pendingAfter(ctx, g.link, g.claimed, count)
		if err != nil {
			return nil, err
		}
		if g.finished = len(entries) == 0; g.finished {
			break
		}
		g.claimed = entries[len(entries)-1].id
		if err := g.count(ctx, entries); err != nil {
			return nil, err
		}
		if entries, err = g.present(ctx, entries); err != nil || len(entries) > 0 {
			return entries, err
		}
	}
	for {
		entries, err := g.owner.readNew(ctx, g.link, g.at, count)
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			g.at = g.at.plus(len(entries), entries[len(entries)-1].id)
			return entries, nil
		}
		if err := g.await(g.at.last, g.block); err != nil {
			return nil, err
		}
	}
}

// count says how often pending entries were delivered before, by the group's count. To give them again has counted.
func (g *grouped) count(ctx context.Context, entries []entry) error {
	some := entries[:min(len(entries), g.inFlight)]
	if len(some) == 0 {
		return nil
	}
	g.inFlight -= len(some)
	counts, err := ask(ctx, g.link, func(ctx context.Context) ([]redis.XPendingExt, error) {
		return g.client.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: g.stream, Group: g.owner.group, Consumer: g.owner.task,
			Start: some[0].id.String(), End: some[len(some)-1].id.String(), Count: int64(len(some)),
		}).Result()
	})
	for _, c := range counts {
		i := slices.IndexFunc(some, func(e entry) bool { return e.id.String() == c.ID })
		if i >= 0 {
			some[i].delivered = int(c.RetryCount) - 1
		}
	}
	return err
}

// present are the pending entries that are still in the stream. Of the others there is nothing left to work on.
func (g *grouped) present(ctx context.Context, entries []entry) ([]entry, error) {
	var there []entry
	var gone []id
	for _, e := range entries {
		if e.fields == nil {
			gone = append(gone, e.id)
			continue
		}
		e.again = true
		there = append(there, e)
	}
	if len(gone) == 0 {
		return there, nil
	}
	if cmp.Or(g.missing, subscribe.Stop) == subscribe.Stop {
		return nil, g.explain(stopped(fmt.Sprintf("entry %s was given, and removed before it was acknowledged",
			gone[0])))
	}
	for _, one := range gone {
		g.log.Info("A message was removed before it was acknowledged", "position", g.stream+"/"+one.String())
	}
	return there, g.ack(ctx, gone)
}

// mostAtOnce is how many entries one command acknowledges: a script has few arguments.
const mostAtOnce = 1000

// Ack acknowledges entries of the group.
func (g *grouped) Ack(ctx context.Context, messages []subscribe.Message) error {
	ids := make([]id, len(messages))
	for i, m := range messages {
		ids[i], _ = m.Ref.(id)
	}
	return g.ack(ctx, ids)
}

func (g *grouped) ack(ctx context.Context, ids []id) error {
	for some := range slices.Chunk(ids, mostAtOnce) {
		command := []any{"XACK", g.stream, g.owner.group}
		for _, one := range some {
			command = append(command, one.String())
		}
		reply, err := g.owner.do(ctx, g.link, g.stream, command...)
		if err != nil {
			return err
		}
		if n, _ := reply.(int64); n != int64(len(some)) {
			return g.explain(fmt.Errorf("%d of %d entries were no longer pending in the consumer group %s: "+
				"somebody else acknowledged them, or destroyed the group", int64(len(some))-n, len(some),
				g.owner.group))
		}
	}
	return nil
}

// KeepDelivered sets the group's count of deliveries. The next owner is given them once more.
func (g *grouped) KeepDelivered(ctx context.Context, messages []subscribe.Message) error {
	for _, m := range messages {
		at, _ := m.Ref.(id)
		_, err := g.owner.do(ctx, g.link, g.stream, "XCLAIM", g.stream, g.owner.group, g.owner.task, 0, at.String(),
			"RETRYCOUNT", m.Delivered, "JUSTID")
		if err != nil {
			return err
		}
	}
	return nil
}

// Cumulative is false: entries are acknowledged one by one.
func (g *grouped) Cumulative() bool { return false }

// DeadLetter adds an entry to another stream.
func (g *grouped) DeadLetter(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	command := append([]any{"XADD", to, "*"}, fieldsOf(m, g.field, why.Headers())...)
	_, err := g.owner.do(ctx, g.link, to, command...)
	return letterError(to, err)
}

// Lag is what the group has not given, and what is pending.
func (g *grouped) Lag(ctx context.Context) (subscribe.Lag, error) {
	e, err := g.extent(ctx)
	if err != nil {
		return subscribe.Unknown, err
	}
	info, found, err := g.group(ctx)
	if err != nil || !found {
		return subscribe.Unknown, err
	}
	oldest, pending, err := g.pending(ctx)
	if err != nil {
		return subscribe.Unknown, err
	}
	last, err := parseID(info.LastDeliveredID)
	if err != nil {
		return subscribe.Unknown, err
	}
	behind := e.after(position{last: last}, info.Lag)
	if pending == 0 && behind != 0 {
		if oldest, err = g.firstAfter(ctx, last); err != nil {
			return subscribe.Unknown, err
		}
	}
	if behind >= 0 {
		behind += pending
	}
	return g.lag(ctx, behind, oldest)
}

// owner is the run that a consumer group belongs to. A hash beside the stream holds the largest token that was seen
// and the task that it is of.
type owner struct {
	hash  string // key of the hash
	task  string // GROUP/NAME, which is the consumer's name too
	token int64
	group string // of consumers
}

// ownerKey is the key of the hash of a group. A Redis Cluster keeps it in the stream's slot.
func ownerKey(stream, group string) string {
	if strings.ContainsAny(stream, "{}") {
		return stream + ":shardctl:" + group // the braces name the slot
	}
	return "{" + stream + "}:shardctl:" + group
}

// own makes o the owner, unless a newer one is. Before says that the group had an owner already.
func (o owner) own(ctx context.Context, l *link) (before bool, err error) {
	return ask(ctx, l, func(ctx context.Context) (bool, error) {
		return ownScript.Run(ctx, l.client, []string{o.hash, l.stream}, o.task, text(o.token)).Bool()
	})
}

// do sends a command that changes key. It fails when o is no longer the owner.
func (o owner) do(ctx context.Context, l *link, key string, command ...any) (reply any, err error) {
	args := append([]any{o.task, text(o.token)}, command...)
	return ask(ctx, l, func(ctx context.Context) (any, error) {
		reply, err := fencedScript.Run(ctx, l.client, []string{o.hash, key}, args...).Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		return reply, err
	})
}

// readNew gives entries that the group has not given yet.
func (o owner) readNew(ctx context.Context, l *link, from position, count int) ([]entry, error) {
	reply, err := ask(ctx, l, func(ctx context.Context) (any, error) {
		return takeScript.Run(ctx, l.client, []string{o.hash, l.stream},
			o.task, text(o.token), o.group, o.task, from.last.String(), text(from.read), count).Result()
	})
	if err != nil {
		return nil, err
	}
	return entriesIn(reply)
}

// pendingAfter gives entries that are pending, in order, after an ID.
func (o owner) pendingAfter(ctx context.Context, l *link, after id, count int) ([]entry, error) {
	reply, err := o.do(ctx, l, l.stream,
		"XREADGROUP", "GROUP", o.group, o.task, "COUNT", count, "STREAMS", l.stream, after.String())
	if err != nil {
		return nil, err
	}
	streams, _ := reply.([]any)
	if len(streams) == 0 {
		return nil, nil
	}
	pair, _ := streams[0].([]any)
	if len(pair) != 2 {
		return nil, nil
	}
	return entriesIn(pair[1])
}

var (
	//go:embed lua/prelude.lua
	prelude string
	//go:embed lua/own.lua
	own string
	//go:embed lua/fenced.lua
	fenced string
	//go:embed lua/take.lua
	take string
	//go:embed lua/range.lua
	ranged string

	ownScript    = redis.NewScript(prelude + own)
	fencedScript = redis.NewScript(prelude + fenced)
	takeScript   = redis.NewScript(prelude + take)
	rangeScript  = redis.NewScript(prelude + ranged)
)
