// Package storecopy moves a stopped cluster's documents from one store to another, so that no token ever goes back.
//
// The order of steps carries the promise. First the source is marked: from then on no session claims there (see
// [record.Move]). Then each session that has stood still for its lease is written dead there, so that it cannot go on.
// Then all documents are copied with their revisions. At last both sides are compared, and only then may replicas run
// on the target. A copy that was cut off goes on where it is run again.
package storecopy
