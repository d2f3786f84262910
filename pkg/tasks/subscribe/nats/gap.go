package nats

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// newest is the member that was made last. Others are left over from an Open that was cut short, or were made by a
// stale owner: what is acknowledged there does not count.
func newest(members []member) member {
	return slices.MaxFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.number, b.number))
	})
}

// floor is the place up to which everything is acknowledged.
func floor(info *jetstream.ConsumerInfo) uint64 {
	clean, _ := strconv.ParseUint(info.Config.Metadata[metaClean], 10, 64) // 0 where there is none
	return max(clean, info.AckFloor.Stream)
}

// lost says in words what is gone after a place; empty: nothing is.
func lost(place uint64, info *jetstream.StreamInfo) string {
	state := info.State
	switch {
	case place > state.LastSeq:
		return fmt.Sprintf("the stream ends at %d, before the position %d: it lost its end", state.LastSeq, place)
	case info.Config.Retention != jetstream.LimitsPolicy:
		return "" // messages go as they are acknowledged
	case state.FirstSeq > place+1:
		return fmt.Sprintf("up to %d messages after the position %d were removed before they were read",
			state.FirstSeq-place-1, place)
	default:
		return ""
	}
}

// proceed sets where a subscription goes on that has been open before.
func (f *family) proceed(
	config *jetstream.ConsumerConfig, missing string, info *jetstream.StreamInfo, members []member,
) error {
	last := newest(members).info
	place := floor(last)
	config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, place+1
	if what := lost(place, info); what != "" {
		if missing == Stop {
			return fmt.Errorf("%w: %s: set nats.missing to earliest or latest to go on", subscribe.ErrStop, what)
		}
		f.log.Info("Messages are missing, and the subscription goes on without them", "message", what, "to", missing)
		if missing == Latest {
			config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverNewPolicy, 0
		} else {
			config.OptStartSeq = max(info.State.FirstSeq, 1)
		}
		return nil
	}
	if last.NumPending == 0 && last.NumAckPending == 0 {
		// So that messages of other subjects do not count as missing once they are removed.
		config.OptStartSeq = max(place, info.State.LastSeq) + 1
	}
	return nil
}
