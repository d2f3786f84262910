package kafka

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topic is what the brokers say of a topic.
type topic struct {
	id         [16]byte // zero: the brokers know no IDs
	cluster    string   // its ID; empty: the brokers know none
	partitions int
	leaders    []int32 // the broker of each partition
}

// idText is the ID as checkpoints have it, empty where there is none.
func (t topic) idText() string {
	if t.id == [16]byte{} {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(t.id[:])
}

// origin distinguishes the topic from others of its name.
func (t topic) origin() string { return cmp.Or(t.idText(), t.cluster) }

// errNoTopic says that there is no such topic.
var errNoTopic = errors.New("the topic does not exist: create it, the subscription waits for it")

// describe asks for a topic, and creates none.
func describeTopic(ctx context.Context, client *kgo.Client, name string) (topic, error) {
	of := kmsg.NewMetadataRequestTopic()
	of.Topic = &name
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation, req.Topics = false, append(req.Topics, of)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return topic{}, fmt.Errorf("ask for the topic: %w", err)
	}
	if len(resp.Topics) != 1 {
		return topic{}, fmt.Errorf("ask for the topic: the broker answered for %d topics", len(resp.Topics))
	}
	switch err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return topic{}, errNoTopic
	case err != nil:
		return topic{}, fmt.Errorf("ask for the topic: %w", err)
	}
	is := topic{id: resp.Topics[0].TopicID, partitions: len(resp.Topics[0].Partitions)}
	if resp.ClusterID != nil {
		is.cluster = *resp.ClusterID
	}
	is.leaders = make([]int32, is.partitions)
	for _, p := range resp.Topics[0].Partitions {
		if int(p.Partition) < is.partitions {
			is.leaders[p.Partition] = p.Leader
		}
	}
	return is, nil
}

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

// absentError says of partitions why they do not answer now. That may pass: one has no leader, say. What others have
// answered is returned beside it.
type absentError map[int32]error

// note takes in what is wrong with a partition; nil: nothing is.
func (e absentError) note(partition int32, err error) {
	if err != nil {
		e[partition] = err
	}
}

// of is what is wrong with an answer; nil: all partitions have answered. It is e unless something will not pass by
// itself.
func (e absentError) of(ctx context.Context, what string) error {
	if len(e) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ask for %s: %w", what, err)
	}
	for _, p := range e.partitions() {
		if err := e[p]; !isTransient(err) {
			return fmt.Errorf("ask for %s: partition %d: %w", what, p, err)
		}
	}
	return e
}

func (e absentError) partitions() []int32 { return slices.Sorted(maps.Keys(e)) }

func (e absentError) Error() string {
	of := map[string][]string{} // partitions by what is wrong
	for _, p := range e.partitions() {
		why := e[p].Error()
		of[why] = append(of[why], strconv.Itoa(int(p)))
	}
	var all []string
	for _, why := range slices.Sorted(maps.Keys(of)) {
		all = append(all, "partition "+strings.Join(of[why], ", ")+": "+why)
	}
	return strings.Join(all, "; ")
}

func (e absentError) Unwrap() []error { return slices.Collect(maps.Values(e)) }

// report is e for people; nil where no partition is absent.
func (e absentError) report() error {
	if len(e) == 0 {
		return nil
	}
	return fmt.Errorf("%w: messages there wait, other partitions go on", e)
}

// leaderless are those of the partitions that have no leader.
func (t topic) leaderless(partitions []int32) absentError {
	none := absentError{}
	for _, p := range partitions {
		if int(p) < len(t.leaders) && t.leaders[p] < 0 {
			none[p] = kerr.LeaderNotAvailable
		}
	}
	return none
}
