package adapter

import "github.com/shardctl/shardctl/pkg/elect/store"

// Seen counts what a database has returned for a query, whether it is a document or not.
type Seen struct {
	N    int
	Last string // its id
}

// Fill calls page until as many documents have come as the query wants, or nothing follows. Where none is malformed it
// does so once: see [store.Store.List] on short pages.
func Fill(q store.Query, page func(q store.Query) ([]store.Doc, Seen, error)) ([]store.Doc, error) {
	var docs []store.Doc
	for left := q; ; {
		more, seen, err := page(left)
		docs = append(docs, more...)
		if err != nil || q.Limit == 0 || q.CountOnly || len(docs) == q.Limit || seen.N < left.Limit {
			return docs, err
		}
		left.Limit -= len(more)
		left = left.After(seen.Last)
	}
}
