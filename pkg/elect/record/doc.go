// Package record turns documents of a store into what they mean, and back: sessions, members, locks, overrides and
// events.
//
// Anyone can edit a document manually. What makes no sense is left out, named in the error beside the rest, and
// never repeated in a write: a change that every store refuses would be tried for ever.
package record
