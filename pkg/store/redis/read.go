package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// readAtOnce is how many ids one script reads, so that no other client waits long.
const readAtOnce = 500

// Get implements [engine.Backend]: a majority has what it shows, under one identity of the master. It begins again when
// that changes between its parts.
func (b *backend) Get(ctx context.Context, kind store.Kind, ids []string) (engine.Page, error) {
	for {
		page, err := b.getParts(ctx, kind, ids)
		if !errors.Is(err, errTorn) {
			return page, err
		}
	}
}

// errTorn says that parts of a reply came from different courses of writes.
var errTorn = errors.New("the master changed between the parts of a reply")

func (b *backend) getParts(ctx context.Context, kind store.Kind, ids []string) (engine.Page, error) {
	var page engine.Page
	identity := ""
	for len(ids) > 0 || identity == "" {
		part := ids[:min(len(ids), readAtOnce)]
		ids = ids[len(part):]
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = id
		}
		answer, err := b.good(
			ctx, b.laneOf(kind), readScript, b.keys.of(kind), func(string) ([]any, error) { return args, nil },
		)
		switch {
		case err != nil:
			return engine.Page{}, err
		case identity != "" && lineage(answer.identity) != lineage(identity):
			return engine.Page{}, errTorn
		}
		identity = answer.identity
		for i := range part {
			if text, ok := answer.text(i); ok {
				b.add(&page, kind, part[i], text)
			}
		}
		b.date(&page, answer)
	}
	return page, nil
}

// add takes what was found into a page: a document, or what cannot be read.
func (b *backend) add(page *engine.Page, kind store.Kind, id, text string) {
	d, err := decode(kind, id, text)
	if err != nil {
		page.Unreadable = append(page.Unreadable, store.Unreadable{Kind: kind, ID: id, Err: err})
		return
	}
	b.course.rise(d.Rev)
	page.Docs = append(page.Docs, d)
}

// date says when a reply was, and in which course of writes. A master that took over may have a clock that is behind:
// revisions go on above the largest one known.
func (b *backend) date(page *engine.Page, from reply) {
	page.Now = max(from.now, b.course.rise()+1)
	page.Floor, page.History = page.Now, lineage(from.identity)
}

// errWords says that a script's reply has another form than this program knows.
var errWords = fmt.Errorf("a script's reply: %w", errors.ErrUnsupported)
