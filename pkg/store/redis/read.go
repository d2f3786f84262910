package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/shardctl/shardctl/pkg/store"
)

// readAtOnce is how many ids one script reads, so that no other client waits long.
const readAtOnce = 500

// reader reads documents, by id and by query.
type reader struct {
	*access
	looked atomic.Int64 // entries of indexes that the last list has looked at
}

// read begins again when the identity changes between its parts.
func (r *reader) read(ctx context.Context, kind store.Kind, ids []string) (store.Reply, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for {
		res, err := r.readParts(ctx, kind, ids)
		if !errors.Is(err, errTorn) {
			return res, err
		}
	}
}

// errTorn says that parts of a reply came from different courses of writes.
var errTorn = errors.New("the master changed between the parts of a reply")

func (r *reader) readParts(ctx context.Context, kind store.Kind, ids []string) (store.Reply, error) {
	var res store.Reply
	identity := ""
	for len(ids) > 0 || identity == "" {
		part := ids[:min(len(ids), readAtOnce)]
		ids = ids[len(part):]
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = id
		}
		answer, err := r.good(
			ctx, r.laneOf(kind), readScript, r.keys.of(kind), func(string) ([]any, error) { return args, nil },
		)
		switch {
		case err != nil:
			return store.Reply{}, err
		case identity != "" && lineage(answer.identity) != lineage(identity):
			return store.Reply{}, errTorn
		}
		identity = answer.identity
		for i := range part {
			if text, ok := answer.text(i); ok {
				r.add(&res, kind, part[i], text)
			}
		}
		r.date(&res, answer)
	}
	return res, nil
}

// add takes what was found into a reply: a document, or what cannot be read.
func (r *reader) add(res *store.Reply, kind store.Kind, id, text string) {
	d, err := decode(kind, id, text)
	if err != nil {
		res.Unreadable = append(res.Unreadable, r.unreadable.Report(kind, id, err))
		return
	}
	r.course.rise(d.Rev)
	res.Docs = append(res.Docs, d)
}

// date says when a reply was, and in which course of writes. A master that took over may have a clock that is behind:
// revisions go on above the largest one known.
func (r *reader) date(res *store.Reply, from reply) {
	res.Now = max(from.now, r.course.rise()+1)
	res.Floor, res.History = res.Now, lineage(from.identity)
}

// errWords says that a script's reply has another form than this program knows.
var errWords = fmt.Errorf("a script's reply: %w", errors.ErrUnsupported)
