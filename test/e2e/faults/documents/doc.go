// Package documents tests what happens when somebody manually deletes or edits what replicas keep in their store. It
// does so in every collection and table, while real replicas run. What is written makes no sense, names the wrong
// session, is missing, or comes back after a while.
//
// One cluster for each store goes through all of it, one round after the other. Whatever a round does, no replica
// crashes, all tasks run exactly once again soon after, and tokens rise. Two runs of a key at once are allowed only
// where design and README say so, and for a short time. That is for a lock that was deleted, or given to no session,
// under its running owner. It is also for a live session that was written dead.
package documents
