package kafka

import "testing"

// Attempts are kept in the metadata of commits, up to the message's own acknowledgement.
func TestAttemptsInTheMetadata(t *testing.T) {
	b := fake(t)
	b.create("orders", 2)
	b.publish("orders", 0, "a", "b", "c")
	b.publish("orders", 1, "d")
	o := b.Open(b.source("orders", nil), 7)
	got := o.Take(4)
	for _, step := range []struct {
		do       func()
		offset   int64
		metadata string
	}{
		{func() { o.Keep(3, got[1]) }, 0, `shardctl g/n 7 {"1":3}`},
		{func() { o.Ack(got[0]) }, 1, `shardctl g/n 7 {"1":3}`},
		{func() { o.Keep(1, got[2]) }, 1, `shardctl g/n 7 {"1":3,"2":1}`},
		{func() { rivalsSoon(o); o.Keep(2, got[2]) }, 1, `shardctl g/n 7 {"1":3,"2":2}`},
		{func() { o.Ack(got[1]) }, 2, `shardctl g/n 7 {"2":2}`},
		{func() { o.Ack(got[2]) }, 3, "shardctl g/n 7"},
	} {
		step.do()
		if offset, metadata := b.committed(group, "orders", 0); offset != step.offset || metadata != step.metadata {
			t.Errorf("committed %d with %q, want %d with %q", offset, metadata, step.offset, step.metadata)
		}
	}
	if _, metadata := b.committed(group, "orders", 1); metadata != "shardctl g/n 7" {
		t.Errorf("partition 1: committed with %q", metadata)
	}
	for _, line := range o.Troubles.All() {
		if line != "<nil>" {
			t.Errorf("said %q", line)
		}
	}
}

// What another task or program wrote, or what cannot be read, is not taken for attempts.
func TestAttemptsThatDoNotCount(t *testing.T) {
	for metadata, want := range map[string]int{
		`shardctl g/n 3 {"0":4}`: 4, `shardctl g/other 3 {"0":4}`: 0, `{"0":4}`: 0, `shardctl g/n 3 {"0":`: 0,
		`shardctl g/n 3 {"0":"4"}`: 0, `shardctl g/n 3 {"0":-4}`: 0, `shardctl g/n x {"0":4}`: 0, "": 0,
	} {
		b := fake(t)
		b.create("orders", 1)
		b.publish("orders", 0, "a")
		b.commit(group, "orders", 0, 0, metadata)
		o := b.Open(b.source("orders", nil), 4)
		m := o.Expect("a")[0]
		if m.Delivered != want {
			t.Errorf("%s: delivered %d times before, want %d", metadata, m.Delivered, want)
		}
		o.Ack(m)
	}
}

// Attempts at messages of a log that is gone are dropped with the position.
func TestAttemptsOfALostPosition(t *testing.T) {
	for _, offsets := range []string{Broker, Store} {
		b := fake(t)
		b.create("orders", 1)
		b.publish("orders", 0, "a", "b")
		s := b.source("orders", func(s *Source) { s.Missing, s.Offsets = Earliest, offsets })
		o := b.Open(s, 1)
		o.Keep(3, o.Expect("a b")...)
		o.Close()
		if _, err := b.admin.DeleteTopic(b.ctx(), "orders"); err != nil {
			t.Fatal(err)
		}
		kept := b.Task
		b = benchOf(t, b.addr) // a client does not produce to another topic of the name
		b.Task = kept
		b.create("orders", 1)
		b.publish("orders", 0, "c", "d")
		for _, m := range b.Open(s, 2).Expect("c d") {
			if m.Delivered != 0 {
				t.Errorf("offsets %s: %s was delivered %d times before", offsets, m.ID, m.Delivered)
			}
		}
	}
}
