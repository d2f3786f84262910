package kafka

import (
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
)

func TestPositionsAreKeptFromExpiring(t *testing.T) {
	b := fake(t)
	b.create("orders", 2)
	b.publish("orders", 0, "a", "b")
	first := b.Open(b.source("orders", nil), 1)
	first.Ack(first.Expect("a b")[0])
	first.Close()
	o := b.Open(b.source("orders", nil), 2)
	kept := o.Sub.(*subscription).kept
	if err := kept.renew(b.ctx()); err != nil {
		t.Fatal(err)
	}
	for p, want := range []int64{1, 0} {
		if offset, by := b.committed(group, "orders", int32(p)); offset != want || by != "shardctl g/n 2" {
			t.Errorf("partition %d: committed is %d by %q", p, offset, by)
		}
	}
	// A stale owner renews nothing.
	newer := b.Open(b.source("orders", nil), 3)
	newer.Ack(newer.Expect("b")...)
	sourcetest.WantError(t, kept.renew(b.ctx()), "a newer owner of the task, token 3")
	if offset, by := b.committed(group, "orders", 0); offset != 2 || by != "shardctl g/n 3" {
		t.Errorf("committed is %d by %q", offset, by)
	}
}
