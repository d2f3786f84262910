// Package idempotency does the work of a request at most once, however often the request is sent.
//
// A request has an ID, which its sender makes and repeats, and a fingerprint of what it asks for. [Guard.Do] keeps a
// record under the ID, calls the work, and keeps its reply. Repetitions get that reply:
//
//	reply, err := guard.Do(ctx, idempotency.Request{ID: id, Fingerprint: print}, pay)
//
// Package idempotencyhttp is the middleware for HTTP.
//
// # Exactly once, or at most once
//
// It depends on where the record is. Within the transaction of the work ([SQL], [SQLTransactions], and package
// idempotencymongo) the effect and its record happen together or not at all: exactly one effect. Everything that the
// work changes has to be in that transaction. A mail that it sends is not.
//
// Elsewhere ([Memory], and package idempotencystore) the record is written before the work and after it: at most one
// effect. A caller that dies in between leaves a record that says so. Whether there was an effect is for people to find
// out, or for the work itself with [Config.Recover].
//
// # States
//
//	           claimed               the work returned a reply
//	(none) ──────────────▶ started ────────────────────────────▶ done
//	  ▲ ▲                   │  │ ▲
//	  │ └───────────────────┘  │ │ Recover
//	  │  NoEffect              ▼ │
//	  └──────────────────── failed: an error, a panic, or the death of the caller
//	   after Config.Keep
//
// What comes of a repetition:
//
//	started, its caller lives   ErrInProgress, or it waits (Config.Wait)
//	started, its caller is dead ErrInterrupted, or the work is called again (Config.Recover)
//	failed                      ErrFailed, or the work is called again (Config.Recover)
//	done                        the reply
//	any, another fingerprint    ErrMismatch
//
// The rules are a pure value, which the tests search for every order of events, with each rule left out in turn.
package idempotency
