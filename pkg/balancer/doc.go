// Package balancer decides who should own what.
//
// [Balance] is a pure function from members and keys to a [Plan]. It reads no clock, draws no random numbers and does
// not depend on the order of its input. So every process that sees the same members and keys computes the same plan and
// can act on its own part of it. None is elected to plan. A view may be stale, so whoever acts on a plan has to claim
// keys by a compare-and-set: a process that planned from an old view then loses that, never safety.
//
// # What a plan guarantees
//
//   - No member owns more keys than its caps and MaxTasks allow, or keys that its labels rule out. One that drains owns
//     none.
//   - Where no key is settled, as many keys have an owner as these limits and strict pins allow. The others are in
//     [Plan].Unassigned.
//   - Where no key is settled, a plan that has been carried out leaves nothing to do: the next one moves no key until
//     the input changes.
//   - Loads keep the bounds below.
//
// # Quotas
//
// A group's keys are shared out by water-filling. The level is raised for all members at once, and a member that
// reaches its cap stays there. What is left when the level cannot rise for everybody is given as single keys, first to
// those who already hold more than the level. So 101 keys on 100 members are 99 × 1 and 1 × 2, not 50 × 2 and one of 1.
// Only what a member holds above its quota, and what no member holds, moves: no other plan with the same spread moves
// fewer keys.
//
// Limits come before spread, and some keys before others:
//
//  1. settled keys stay with their owner (see [Key]) and the others are spread round them;
//  2. strict pins, then pins that are preferences: those with the fewest possible owners first;
//  3. all other keys.
//
// The single keys above the level go to the zones that have fewest, when every member that may own the group's keys
// has a zone. Three keys on six members in three zones are one in each zone. Members stay even: a zone of one member
// gets that member's share and not a third of everything. With weights, zones are even where all have equally many
// members. As soon as one member has no zone, zones are ignored.
//
// When weights differ, load is the sum of weights. It ends at most 5 % above the mean, or above it by the heaviest key
// if that is more; caps still count keys. Held keys move for it only while some load is too far off, and a move or a
// swap makes loads more even. A load is too high when it is above the mean by more than 5 % and by more than a quarter
// of the heaviest key, and heavier than that key. It is too low when it is below the mean by more than 5 % and by more
// than the heaviest key. From a load that is too high as few keys go as can be. A move that leaves no load too high
// helps whichever process acts first, so they come to rest. Where keys have to be exchanged, it may take more moves
// than the first plan had. Where caps leave no free capacity, an exchange may not succeed and is tried again.
//
// # Rolling updates
//
// While members of two revisions live concurrently, the keys that members hold stay where they are. Only keys that must
// move do: those of draining and dead members. They go to members of the newer revision as far as these are below their
// quota, and only then to any. So a rolling update that starts each new member before it stops an old one moves each
// key once. The price is that a new member owns nothing until the first old one goes. Where revisions are to live side
// by side for good, or an update has stalled, set [Input].Even.
//
// # What is left to the caller
//
// A plan is about keys that should be owned. A paused key has no owner in it, and whoever acts on the plan has to
// release it. How fast keys may move, and how long membership must rest before they do, is for the caller as well:
// [Key].Settled holds keys back.
package balancer
