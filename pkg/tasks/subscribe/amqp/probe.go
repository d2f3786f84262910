package amqp

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	// glance is how many messages of a stream's end are looked at in one go.
	glance = 256
	// glances bounds how often: a stream that grows has no end.
	glances = 64
	// grace is how long the first message of a glance may take. In an empty stream none comes.
	grace = 300 * time.Millisecond
)

// probe finds a stream's ends by reading them. The broker does not show them otherwise by this protocol.
type probe struct{ *consumer }

// begin is the offset of the oldest message; false: there is none.
func (p *probe) begin(ctx context.Context) (int64, bool, error) {
	seen, err := p.look(ctx, "first", 1)
	if err != nil || len(seen) == 0 {
		return 0, false, err
	}
	return seen[0], true, nil
}

// end is the offset that the next message will have, or a little less while many are being published.
func (p *probe) end(ctx context.Context) (int64, error) {
	var end int64
	from := any("last") // the last chunk, which may be of thousands
	for range glances {
		seen, err := p.look(ctx, from, glance)
		if err != nil || len(seen) == 0 {
			return end, err
		}
		if end = seen[len(seen)-1] + 1; len(seen) < glance {
			break
		}
		from = end
	}
	return end, nil
}

// settled is the end, looked at again where it is before least: what was just published may not be seen at once.
func (p *probe) settled(ctx context.Context, least int64) (int64, error) {
	end, err := p.end(ctx)
	if err != nil || end >= least {
		return end, err
	}
	select {
	case <-time.After(settle):
		return p.end(ctx)
	case <-ctx.Done():
		return 0, ctx.Err() //nolint:wrapcheck // the caller's own
	}
}

// look reads up to most messages on a channel of its own, and returns their offsets.
func (p *probe) look(ctx context.Context, from any, most int) ([]int64, error) {
	lane, err := p.link.lane(ctx)
	if err != nil {
		return nil, p.link.explain(p.queue, err)
	}
	var seen []int64
	err = lane.do(ctx, func() (err error) {
		seen, err = p.read(lane.ch, from, most)
		return err
	})
	if err != nil {
		return nil, p.link.explain(p.queue, err)
	}
	return seen, nil
}

// read reads what is there. Deliveries come ahead of the answer to a request that was sent once the first had come.
func (p *probe) read(ch *amqp091.Channel, from any, most int) ([]int64, error) {
	defer func() { _ = ch.Close() }() // where it fails, the connection has ended
	if err := ch.Qos(most, 0, false); err != nil {
		return nil, err //nolint:wrapcheck // explained by the caller
	}
	const tag = "shardctl probe"
	deliveries, err := ch.Consume(p.queue, tag, false, false, false, false, amqp091.Table{offsetHeader: from})
	if err != nil {
		return nil, err //nolint:wrapcheck // explained by the caller
	}
	var seen []int64
	select {
	case d, ok := <-deliveries:
		if !ok {
			return nil, errEnded
		}
		if offset, ok := offsetOf(&d); ok {
			seen = append(seen, offset)
		}
	case <-time.After(grace):
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for d := range deliveries {
			if offset, ok := offsetOf(&d); ok {
				seen = append(seen, offset)
			}
		}
	}()
	if err := ch.Cancel(tag, false); err != nil {
		_ = ch.Close()
		<-done
		return nil, err //nolint:wrapcheck // explained by the caller
	}
	<-done
	return seen, nil
}
