// Package fencehttp is a fence in front of an HTTP handler. It takes the headers that tasks and subscriptions of
// shardctl send, Shardctl-Key and Shardctl-Fencing-Token, and answers an old token with 409.
//
//	var fences fence.Memory
//	http.Handle("/orders", fencehttp.Handler(&fences, orders))
//
// The fence is any of package fence and those beside it. Where it is a transaction, the handler works in that: with
// fencesql it takes fencesql.Tx(r.Context()), and with fencemongo it passes r.Context() on. Then an answer below 400
// commits, and any other rolls back.
//
// The answer is kept in memory until the fence is done with, since no one may be told of what is not committed. So
// handlers cannot stream.
//
// Who may send a request at all is for the server to find out: anyone can write a header.
package fencehttp
