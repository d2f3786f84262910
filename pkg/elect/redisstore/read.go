package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// readAtOnce is how many ids one script reads, so that no other client waits long.
const readAtOnce = 500

// Read implements [store.Store]. A majority has what it shows, under one identity of the master.
func (s *Store) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, err
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	res, err := s.read(ctx, kind, ids)
	if err != nil {
		return store.Reply{}, s.translate("read "+kind.Info().Plural, err)
	}
	return res, nil
}

// read begins anew when the identity changes between its parts.
func (s *Store) read(ctx context.Context, kind store.Kind, ids []string) (store.Reply, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for {
		res, err := s.readParts(ctx, kind, ids)
		if !errors.Is(err, errTorn) {
			return res, err
		}
	}
}

// errTorn says that parts of a reply came from different courses of writes.
var errTorn = errors.New("the master changed between the parts of a reply")

func (s *Store) readParts(ctx context.Context, kind store.Kind, ids []string) (store.Reply, error) {
	var res store.Reply
	identity := ""
	for len(ids) > 0 || identity == "" {
		part := ids[:min(len(ids), readAtOnce)]
		ids = ids[len(part):]
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = id
		}
		r, err := s.good(ctx, s.laneOf(kind), readScript, s.keys.of(kind), func(string) ([]any, error) { return args, nil })
		switch {
		case err != nil:
			return store.Reply{}, err
		case identity != "" && lineage(r.identity) != lineage(identity):
			return store.Reply{}, errTorn
		}
		identity = r.identity
		for i := range part {
			if text, ok := r.text(i); ok {
				s.add(&res, kind, part[i], text)
			}
		}
		s.date(&res, r)
	}
	return res, nil
}

// add takes a document that was found into a reply, unless it is none.
func (a *access) add(res *store.Reply, kind store.Kind, id, text string) {
	d, err := decode(kind, id, text)
	if err != nil {
		a.unreadable.Report(kind, id, err)
		return
	}
	a.course.rise(d.Rev)
	res.Docs = append(res.Docs, d)
}

// date says when a reply was, and in which course of writes. A master that took over may have a clock that is behind:
// revisions go on above the largest one known.
func (a *access) date(res *store.Reply, r reply) {
	res.Now = max(r.now, a.course.rise()+1)
	res.Floor, res.History = res.Now, lineage(r.identity)
}

// List implements [store.Store]. It shows what the master has, which may be more than what majorities have.
func (s *Store) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, err
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	for {
		res, err := s.list(ctx, kind, q)
		switch {
		case errors.Is(err, errTorn):
			continue
		case err != nil:
			return store.Reply{}, s.translate("list "+kind.Info().Plural, err)
		}
		return res, nil
	}
}

// errWords says that a script's reply has another form than this program knows.
var errWords = fmt.Errorf("a script's reply: %w", errors.ErrUnsupported)
