package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// What comes of a partition that is left out is kept, up to a limit, and comes first later. Nothing is lost beyond it.
func TestWhatIsLeftOutComesLaterInOrder(t *testing.T) {
	for name, maxBytes := range map[string]int{"kept": 0, "fetched again": 3} {
		t.Run(name, func(t *testing.T) {
			b := fake(t)
			b.create("in", 2)
			o := b.Open(b.source("in", func(s *Source) { s.MaxBytes = maxBytes }), 1)
			o.Sub.(subscribe.Pausing).Pause([]string{"0"})
			var texts []string
			for i := range 20 {
				texts = append(texts, fmt.Sprint("m", i))
			}
			b.publish("in", 0, texts...)
			for _, text := range []string{"a", "b", "c"} {
				b.publish("in", 1, text)
				o.Ack(o.Expect(text)...)
			}
			o.Sub.(subscribe.Pausing).Pause(nil)
			o.Ack(o.Expect(strings.Join(texts, " "))...)
		})
	}
}
