package engine

import (
	"cmp"
	"slices"

	"github.com/shardctl/shardctl/pkg/store"
)

// Matches says whether a query selects a document. Its order and its limit do not count.
func Matches(d *store.Doc, q store.Query) bool {
	return (q.Group == "" || d.Group == q.Group) &&
		(len(q.Sessions) == 0 || slices.Contains(q.Sessions, d.Session)) &&
		(len(q.Others) == 0 || !slices.Contains(q.Others, d.Session)) &&
		(len(q.States) == 0 || slices.Contains(q.States, d.State)) &&
		d.Rev >= q.MinRev && (!q.Unsuspended || !d.Suspended) &&
		(q.Expired == 0 || d.Expires > 0 && d.Expires <= q.Expired) &&
		d.ID >= q.From && (q.To == "" || d.ID < q.To)
}

// SelectsAll says whether a query has no condition. Its order and its limit do not count.
func SelectsAll(q store.Query) bool {
	return q.Group == "" && len(q.Sessions) == 0 && len(q.Others) == 0 && len(q.States) == 0 && q.MinRev == 0 &&
		!q.Unsuspended && q.Expired == 0 && q.From == "" && q.To == ""
}

// Select makes the reply of a query out of candidates, in any order: those that match, counted or sorted and limited.
// Now, Floor and History are left to the caller. It reorders and changes candidates.
func Select(candidates []store.Doc, q store.Query) store.Reply {
	docs := slices.DeleteFunc(candidates, func(d store.Doc) bool { return !Matches(&d, q) })
	if q.CountOnly {
		return store.Reply{Total: int64(len(docs))}
	}
	slices.SortFunc(docs, func(a, b store.Doc) int {
		if q.Reverse {
			a, b = b, a
		}
		return cmp.Compare(a.ID, b.ID)
	})
	if q.Limit > 0 && len(docs) > q.Limit {
		docs = docs[:q.Limit]
	}
	if q.NoBody {
		for i := range docs {
			docs[i].Body = nil
		}
	}
	return store.Reply{Docs: docs}
}
