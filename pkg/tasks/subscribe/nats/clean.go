package nats

import (
	"context"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// keepClean notes in the consumer that everything is acknowledged up to the end of the stream. In a stream with several
// subjects the acknowledged place stays where the last message of this subscription was. Once others' messages after it
// are removed, they would count as missing. It writes seldom: when the stream begins after what was noted.
func (f *family) keepClean(ctx context.Context, stream jetstream.Stream, info *jetstream.ConsumerInfo) error {
	state := stream.CachedInfo().State // from before the consumer was idle
	place := floor(info)
	if state.FirstSeq <= place+1 || state.LastSeq <= place {
		return nil
	}
	config := info.Config
	config.Metadata = map[string]string{metaTask: f.task, metaClean: strconv.FormatUint(state.LastSeq, 10)}
	_, err := stream.UpdateConsumer(ctx, config)
	return err
}
