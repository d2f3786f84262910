// Package record turns documents of a store into what they mean, and back: sessions, members, locks, overrides and
// events.
//
// Anyone can edit a document manually. What makes no sense is left out, named in the error returned with the rest, and
// never repeated in a write. A change that every store refuses would be tried for ever.
package record
