package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
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

// Scan implements [engine.Backend]. It shows what the master has, which may be more than what majorities have. It begins
// again when the master changes between its parts.
func (b *backend) Scan(ctx context.Context, kind store.Kind, q store.Query) (engine.Page, error) {
	for {
		page, err := b.scanParts(ctx, kind, q)
		if !errors.Is(err, errTorn) {
			return page, err
		}
	}
}

// scanParts asks page by page where documents come in order of id. Each index by another order is read in one script,
// so that a document which moves within it meanwhile is neither shown twice nor missed.
func (b *backend) scanParts(ctx context.Context, kind store.Kind, q store.Query) (engine.Page, error) {
	var all engine.Page
	var total int64
	cursor, identity := "", ""
	b.looked.Store(0)
	for {
		page, err := b.plain(
			ctx, b.laneOf(kind), listScript, b.keys.of(kind), listArgs(kind, q, cursor, len(all.Docs)),
		)
		if err != nil {
			return engine.Page{}, err
		}
		if identity != "" && lineage(page.identity) != lineage(identity) {
			return engine.Page{}, errTorn
		}
		identity = page.identity
		if len(page.words) < 3 {
			return engine.Page{}, errWords
		}
		looked, _ := page.text(0)
		matched, _ := page.text(1)
		cursor, _ = page.text(2)
		b.looked.Add(whole(looked))
		total += whole(matched)
		for i := 3; i+1 < len(page.words); i += 2 {
			id, _ := page.text(i)
			text, _ := page.text(i + 1)
			b.add(&all, kind, id, text)
		}
		b.date(&all, page)
		if cursor == "" || q.Limit > 0 && !q.CountOnly && len(all.Docs) >= q.Limit {
			break
		}
	}
	if q.CountOnly {
		all.Docs, all.Unreadable, all.Total = nil, nil, total
		return all, nil
	}
	all.Docs = engine.Select(all.Docs, q).Docs
	return all, nil
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
