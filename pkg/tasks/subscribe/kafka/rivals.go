package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// check compares what is committed with what this run committed. A newer owner's commit is an error: this run is stale.
// An older owner's is put right by the next commit. Anybody else's is reported, and stays so until a check finds none.
func (b *inBroker) check(ctx context.Context) error {
	found, err := b.fetch(ctx)
	if err != nil {
		return err
	}
	b.checked = time.Now()
	var rival error
	for _, p := range slices.Sorted(maps.Keys(b.marks)) {
		c, ok := found[p]
		by, _, ours := authorOf(c.metadata)
		switch {
		case !ok, c.mark == b.marks[p], ours && by == b.by:
		case ours && by.task == b.by.task && by.token > b.by.token:
			return fmt.Errorf("group %s, partition %d: a newer owner of the task, token %d, has committed: "+
				"this run, token %d, acknowledges nothing more", b.group, p, by.token, b.by.token)
		case ours && by.task == b.by.task:
			b.log.Info("An older owner committed late, the next commit puts that right",
				"position", positionOf(b.topic, p, c.Offset), "by", c.metadata)
		case rival == nil:
			rival = fmt.Errorf("somebody else commits to group %s for topic %s: partition %d is at offset %d, "+
				"by %s; each subscription has a name of its own: set kafka.group", b.group, b.topic, p, c.Offset,
				describe(c.metadata))
		}
	}
	b.rivals(rival)
	return nil
}

// describe says who wrote the metadata.
func describe(metadata string) string {
	if by, _, ours := authorOf(metadata); ours {
		return "task " + by.task
	}
	return "a client that is not shardctl"
}
