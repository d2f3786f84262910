package subscribetest

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// checkPause: messages of a partition that is left out do not come, those of others do. Once it is not left out any
// more, all of it comes in order.
func checkPause(s *scene) {
	c := s.open()
	sub, ok := c.sub.(subscribe.Pausing)
	if !ok {
		s.Skipf("skipped: the source leaves no partitions out")
	}
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	s.publish(s.messages(len(keys), keys...)...)
	of := map[string]string{} // partitions of keys
	first := c.take(len(keys))
	for _, m := range first {
		of[string(m.Key)] = m.Partition
	}
	c.ack(first...)
	out := of[keys[0]]
	sent := s.messages(4*len(keys), keys...)
	later := slices.DeleteFunc(slices.Clone(sent), func(m subscribe.Message) bool { return of[string(m.Key)] != out })
	sub.Pause([]string{out})
	s.publish(sent...)
	others := c.take(len(sent) - len(later))
	for _, m := range others {
		if m.Partition == out {
			s.Fatalf("%s of partition %s came, which is left out", m.Body, out)
		}
	}
	if messages, err := c.tryReceive(1, moment); err == nil {
		s.Fatalf("%s came, and only partition %s has messages, which is left out", list(names(messages)), out)
	}
	c.ack(others...)
	sub.Pause(nil)
	got := c.take(len(later))
	if !slices.Equal(names(got), names(later)) {
		s.Fatalf("of the partition that was left out came %s, want %s", list(names(got)), list(names(later)))
	}
	c.ack(got...)
}
