package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// mostAside is how many messages of a partition are kept aside at least before it is fetched from no more.
const mostAside = 1000

// aside keeps messages of partitions that Receive leaves out. A partition that the client has paused is fetched from
// again only with the next fetch, which may wait for long where the others are idle. So a short pause is none of the
// client's. Receive and Pause use it, one at a time.
type aside struct {
	client   *kgo.Client
	topic    string
	maxBytes int // of a partition, after which it is fetched from no more
	out      []string
	of       map[string]*stash
}

// stash are messages of one partition, in order.
type stash struct {
	messages []subscribe.Message
	bytes    int
}

// Pause leaves partitions out.
func (s *subscription) Pause(partitions []string) { s.aside.leaveOut(partitions) }

func (a *aside) leaveOut(partitions []string) {
	a.out = partitions
	resume := a.client.PauseFetchPartitions(nil)
	resume[a.topic] = slices.DeleteFunc(resume[a.topic],
		func(p int32) bool { return slices.Contains(a.out, nameOf(p)) })
	if len(resume[a.topic]) > 0 {
		a.client.ResumeFetchPartitions(resume)
	}
}

// put keeps the messages of partitions that are left out, and returns the others.
func (a *aside) put(messages []subscribe.Message) []subscribe.Message {
	if len(a.out) == 0 {
		return messages
	}
	return slices.DeleteFunc(messages, func(m subscribe.Message) bool {
		if !slices.Contains(a.out, m.Partition) {
			return false
		}
		kept := a.of[m.Partition]
		if kept == nil {
			kept = &stash{}
			a.of[m.Partition] = kept
		}
		kept.messages = append(kept.messages, m)
		kept.bytes += len(m.Body)
		if len(kept.messages) >= mostAside || kept.bytes >= a.maxBytes {
			a.client.PauseFetchPartitions(map[string][]int32{a.topic: {m.Ref.(ref).partition}})
		}
		return true
	})
}

// take takes what was kept of partitions that are not left out any more. It comes before what is fetched.
func (a *aside) take(most int) (taken []subscribe.Message) {
	for partition, kept := range a.of {
		if slices.Contains(a.out, partition) {
			continue
		}
		n := min(most-len(taken), len(kept.messages))
		taken = append(taken, kept.messages[:n]...)
		if kept.messages = kept.messages[n:]; len(kept.messages) == 0 {
			delete(a.of, partition)
		}
	}
	return taken
}
