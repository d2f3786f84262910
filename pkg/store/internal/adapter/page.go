package adapter

import "github.com/shardctl/shardctl/pkg/store"

// Seen counts what a database has returned for a query, whether it is a document or not.
type Seen struct {
	N    int
	Last string // its id
}

// Fill calls page until as many documents have come as the query wants, or nothing follows. Where none is malformed it
// does so once: see [store.Store.List] on short pages.
func Fill(q store.Query, page func(q store.Query) (store.Reply, Seen, error)) (store.Reply, error) {
	var docs []store.Doc
	var unreadable []store.Unreadable
	for left := q; ; {
		reply, seen, err := page(left)
		more := len(reply.Docs)
		docs, unreadable = append(docs, reply.Docs...), append(unreadable, reply.Unreadable...)
		if err != nil || q.Limit == 0 || q.CountOnly || len(docs) == q.Limit || seen.N < left.Limit {
			reply.Docs, reply.Unreadable = docs, unreadable
			return reply, err
		}
		left.Limit -= more
		left = left.After(seen.Last)
	}
}
