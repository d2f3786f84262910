// Package idempotencyhttp is a middleware for net/http that does the work of a request once, by the header
// Idempotency-Key of draft-ietf-httpapi-idempotency-key-header.
//
// A client sends the same key with each repetition of a request:
//
//	Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"
//
// The value is a string as RFC 8941, section 3.3.3, has them. Tasks and subscriptions of shardctl send theirs without
// quotes, and are taken as well. The answers, beside those of the handler:
//
//	400  the header is missing where it is required, is sent twice, or is no such string
//	409  another call is at work on the request, or it failed before and may have had an effect
//	413  the body is larger than Options.MaxBody
//	422  the key was used for another request
//	503  the database did not answer
//
// They are problem details (RFC 9457). A reply that was kept before has the header Idempotent-Replayed: true.
//
// The handler's context does not end when the client gives up: the work is done once, and its reply is kept for the
// repetition.
//
// A reply is sent once it is kept. So it is gathered in memory, and the handler cannot stream, hijack or push.
package idempotencyhttp
