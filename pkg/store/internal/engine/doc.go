// Package engine makes a [store.Store] of a small [Backend]: one database, which can test and write documents, find
// them, and say what changes. All that is the same for every database is here.
//
// The way of a change: [Store.Apply] validates it, divides long lists by [Traits], gives the call a deadline and has
// [Backend.CAS] send it. What was not written is judged by the document that was found ([store.Judge]). Where the
// condition holds by now, the very same change is sent again.
//
// The way of a read: [Store.Read] and [Store.List] have [Backend.Get] and [Backend.Scan] find documents. Those that
// somebody edited so that they cannot be read are logged once and named in the reply. A page that they leave short is
// filled.
//
// The way of a notification: [Store.Watch] runs [Watcher.Tail] for each watcher, or one for all where the database does
// not filter. A tail that breaks ends its watchers, who begin again with a Resync.
package engine
