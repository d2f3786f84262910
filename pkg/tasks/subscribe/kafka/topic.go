package kafka

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"

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

// origin tells the topic from others of its name.
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
