package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// plan is the index by which a query is answered.
func plan(kind store.Kind, q store.Query) string {
	has := func(letter string) bool { return strings.Contains(indexes(kind), letter) }
	switch {
	case len(q.Sessions) > 0 && has("s"):
		return "sessions"
	case len(q.Others) > 0 && has("s"):
		return "others"
	case q.Expired > 0 && has("e"):
		return "expiry"
	case q.Group != "" && q.MinRev > 0 && has("r"):
		return "revisions"
	case q.Group != "" && has("g"):
		return "groups"
	}
	return "ids"
}

// list begins again when the master changes between its parts.
func (r *reader) list(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	for {
		res, err := r.listParts(ctx, kind, q)
		if !errors.Is(err, errTorn) {
			return res, err
		}
	}
}

// listParts asks page by page where documents come in order of id. Each index by another order is read in one script,
// so that a document which moves within it meanwhile is neither shown twice nor missed.
func (r *reader) listParts(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	var res store.Reply
	var total int64
	cursor, identity := "", ""
	r.looked.Store(0)
	for {
		page, err := r.plain(
			ctx, r.laneOf(kind), listScript, r.keys.of(kind), listArgs(kind, q, cursor, len(res.Docs)),
		)
		if err != nil {
			return store.Reply{}, err
		}
		if identity != "" && lineage(page.identity) != lineage(identity) {
			return store.Reply{}, errTorn
		}
		identity = page.identity
		if len(page.words) < 3 {
			return store.Reply{}, errWords
		}
		looked, _ := page.text(0)
		matched, _ := page.text(1)
		cursor, _ = page.text(2)
		r.looked.Add(whole(looked))
		total += whole(matched)
		for i := 3; i+1 < len(page.words); i += 2 {
			id, _ := page.text(i)
			text, _ := page.text(i + 1)
			r.add(&res, kind, id, text)
		}
		r.date(&res, page)
		if cursor == "" || q.Limit > 0 && !q.CountOnly && len(res.Docs) >= q.Limit {
			break
		}
	}
	if q.CountOnly {
		res.Docs, res.Unreadable, res.Total = nil, nil, total
		return res, nil
	}
	res.Docs = adapter.Select(res.Docs, q).Docs
	return res, nil
}

func whole(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func listArgs(kind store.Kind, q store.Query, cursor string, have int) []any {
	limit := 0
	if q.Limit > 0 {
		limit = max(1, q.Limit-have)
	}
	args := []any{
		plan(kind, q), q.Group, q.MinRev, q.From, q.To, bit(q.Unsuspended), q.Expired, limit, bit(q.Reverse),
		bit(q.NoBody), bit(q.CountOnly), cursor,
	}
	for _, set := range [][]string{q.Sessions, q.Others, q.States} {
		set = slices.Compact(slices.Sorted(slices.Values(set)))
		args = append(args, len(set))
		for _, text := range set {
			args = append(args, text)
		}
	}
	return args
}
