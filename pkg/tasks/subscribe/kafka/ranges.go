package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Times that stand for the ends of a log.
const (
	atFirst = -2
	atEnd   = -1
)

// listOffsets asks for the first offset of each partition at a time (milliseconds, or atFirst or atEnd). It is -1 for
// a partition that has none since. The error may be an [absentError].
func listOffsets(
	ctx context.Context, client *kgo.Client, topic string, partitions []int32, at int64, isolation int8,
) (map[int32]int64, error) {
	of := kmsg.NewListOffsetsRequestTopic()
	of.Topic = topic
	for _, p := range partitions {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = p, at
		of.Partitions = append(of.Partitions, part)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel, req.Topics = -1, isolation, append(req.Topics, of)
	offsets, absent := make(map[int32]int64, len(partitions)), absentError{}
	for _, shard := range client.RequestSharded(ctx, req) {
		if resp, ok := shard.Resp.(*kmsg.ListOffsetsResponse); ok && shard.Err == nil {
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					offsets[p.Partition] = p.Offset
					absent.note(p.Partition, kerr.ErrorForCode(p.ErrorCode))
				}
			}
			continue
		}
		asked, _ := shard.Req.(*kmsg.ListOffsetsRequest)
		for _, t := range asked.Topics {
			for _, p := range t.Partitions {
				absent.note(p.Partition, shard.Err)
			}
		}
	}
	for _, p := range partitions {
		if _, ok := offsets[p]; !ok && absent[p] == nil {
			return nil, fmt.Errorf("ask for the log's range: no answer for partition %d", p)
		}
	}
	return offsets, absent.of(ctx, "the log's range")
}

// endsOfEpochs asks how far the log goes in the epoch of each mark. A partition of which that is not known is left out.
// The error may be an [absentError].
func endsOfEpochs(
	ctx context.Context, client *kgo.Client, topic string, marks map[int32]mark,
) (map[int32]int64, error) {
	of := kmsg.NewOffsetForLeaderEpochRequestTopic()
	of.Topic = topic
	for p, m := range marks {
		if m.Epoch < 0 {
			continue
		}
		part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		part.Partition, part.CurrentLeaderEpoch, part.LeaderEpoch = p, -1, m.Epoch
		of.Partitions = append(of.Partitions, part)
	}
	if len(of.Partitions) == 0 {
		return nil, nil
	}
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID, req.Topics = -1, append(req.Topics, of)
	ends, absent := map[int32]int64{}, absentError{}
	for _, shard := range client.RequestSharded(ctx, req) {
		if resp, ok := shard.Resp.(*kmsg.OffsetForLeaderEpochResponse); ok && shard.Err == nil {
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if p.EndOffset >= 0 {
						ends[p.Partition] = p.EndOffset
					}
					absent.note(p.Partition, kerr.ErrorForCode(p.ErrorCode))
				}
			}
			continue
		}
		asked, _ := shard.Req.(*kmsg.OffsetForLeaderEpochRequest)
		for _, t := range asked.Topics {
			for _, p := range t.Partitions {
				absent.note(p.Partition, shard.Err)
			}
		}
	}
	return ends, absent.of(ctx, "the log's epochs")
}
