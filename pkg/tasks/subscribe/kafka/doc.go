// Package kafka is the source of messages "kafka": a topic of Apache Kafka, or some of its partitions.
//
// The partitions are assigned directly, and never by a consumer group's rebalance: who consumes is already decided by
// the task's lease. The group is a name that positions are kept under, with OffsetCommit outside of a generation.
//
// Delivery is at least once and in order per partition. A position is the offset of the next message to work on. Kept
// by the broker, a stale owner's late commit can move it back until the owner's next commit; the fencing token is named
// in each commit's metadata. Kept in the checkpoint (offsets: store), it cannot.
//
// Each subscription has a client of its own. A client shared by several would delay every partition that is added to
// it: the broker is busy with a long poll for the others. Removing one drops what is buffered for all.
package kafka
