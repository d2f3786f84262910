package kafka

import "context"

// mark is how far a partition was worked on.
type mark struct {
	Offset int64 // of the next message
	Epoch  int32 // the leader's, of the last message; -1: not known
	// Attempts are those at messages from there on, as package attempts writes them; empty: none.
	Attempts string
}

// kept are the positions that were kept for a topic.
type kept struct {
	marks map[int32]mark
	// topic is the name, and id the ID, of the topic that they are of. Empty: of the one that is asked for.
	topic, id string
}

// positions keep how far the partitions of a topic were worked on. Its methods may be called concurrently.
type positions interface {
	// load is called first.
	load(ctx context.Context) (kept, error)
	// save keeps the marks of some partitions, all or none, and returns once that is confirmed.
	save(ctx context.Context, changed map[int32]mark) error
	// renew keeps what was saved from expiring.
	renew(ctx context.Context) error
	// String names the place, as in "group orders".
	String() string
}
