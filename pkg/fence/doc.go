// Package fence is the receiving side of a fencing token: it refuses the work of an owner that another has followed.
//
// No lease can rule out that an old owner writes once more, after a long pause of its whole machine. Its token can. The
// tokens of a key rise with every claim, on any machine, for ever. So what is written to remembers the largest token
// that it has seen of each key, and refuses a smaller one. See Kleppmann, "How to do distributed locking" (2016).
//
// It has to compare, remember and work in one step. Nothing may come between, or an old owner passes the comparison,
// is paused, and works after its follower. So each fence is for one kind of place, and does the three there:
//
//   - [Memory], in the memory of one process;
//   - package fencesql, in a transaction of PostgreSQL, MySQL, MariaDB or SQLite;
//   - package fencemongo, in one update or one transaction of MongoDB;
//   - package fenceredis, in one script of Redis;
//   - package fencehttp, in front of an HTTP handler, on top of any of the others.
//
// What to ask for is a [Claim]. [Exclusive] is that of a sole owner:
//
//	if err := fences.Check(ctx, tx, fence.Exclusive("reports/monthly", lease.Token())); err != nil {
//		return err // it wraps fence.ErrOld: another has followed
//	}
//
// [Shared] is that of one of several readers, and [Slot] names one place of a semaphore. All fences take the decision
// of [Marks]. They compile no driver but their own.
//
// # What is not guaranteed
//
//   - A fence knows of an owner once that one has shown its token. Before the follower's first call the old one passes.
//     A follower that must not be preceded any more shows its token before it reads.
//   - A key is what writers agree on. Who comes with another key, or with none, is not stopped.
//   - Marks are kept for ever. Where they are lost while the work is kept, an old token passes again.
package fence
