// Package history keeps and judges the record of what really ran. Every task of an end-to-end scenario writes the time
// every few milliseconds into a file of its own. This package turns the files into runs.
//
// A run is one start of a key's command with all processes that came of it, from the first timestamp of any to the
// last. From runs follow the answers that the scenarios ask for. Did a key ever run twice at once ([History.Overlaps])?
// Did its tokens rise ([History.TokenFaults])? For how long did it not run ([History.Gaps])? Who ran it at an instant
// ([History.OwnersAt]), and what moved between two ([History.Moves])? How many keys did an instance run at once
// ([History.MostAtOnce])?
//
// Timestamps also show how long the machine stood still ([LongestStall]); so does a process that watches itself
// ([Watch]).
//
// Times are readings of CLOCK_MONOTONIC, which all processes of one machine share, so that nothing depends on the wall
// clock. What no record can show is a process that is alive and writes nothing: the precision of every figure is one
// period.
package history
