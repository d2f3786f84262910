package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

// mark is how far a partition was worked on.
type mark struct {
	Offset int64 // of the next message
	Epoch  int32 // the leader's, of the last message; -1: not known
	// Attempts are those at messages from there on, as package recall writes them; empty: none.
	Attempts string
}

// kept are the positions that were kept for a topic.
type kept struct {
	marks map[int32]mark
	// topic is the name, and id the ID, of the topic that they are of. Empty: of the one that is asked for.
	topic, id string
	// had says that there were positions, also where there is no mark.
	had bool
}

// positions keep how far the partitions of a topic were worked on. Its methods may be called concurrently.
type positions interface {
	// load is called first.
	load(ctx context.Context) (kept, error)
	// save keeps the marks of some partitions, all or none, and returns once that is confirmed.
	save(ctx context.Context, changed map[int32]mark) error
	// renew keeps what was saved from expiring.
	renew(ctx context.Context) error
	// String names the place, as in "group orders".
	String() string
}

// inStore keeps positions in the task's checkpoint. A stale owner's save fails there.
type inStore struct {
	checkpoint subscribe.Checkpoint
	topic, id  string

	mu    sync.Mutex
	marks map[int32]mark
}

// document is the checkpoint's content. Each position is offset and epoch, in short: a topic may have thousands.
type document struct {
	Topic   string             `json:"topic"`
	ID      string             `json:"topicId,omitempty"`
	Offsets map[int32][2]int64 `json:"offsets"`
	// Attempts are JSON of package recall.
	Attempts map[int32]json.RawMessage `json:"attempts,omitempty"`
}

func (s *inStore) String() string { return "checkpoint" }

func (s *inStore) load(ctx context.Context) (kept, error) {
	value, err := s.checkpoint.Value(ctx)
	if err != nil {
		return kept{}, fmt.Errorf("checkpoint: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = map[int32]mark{}
	if len(value) == 0 {
		return kept{}, nil
	}
	var d document
	if err := json.Unmarshal(value, &d); err != nil {
		return kept{}, fmt.Errorf(
			"checkpoint: is not one of a topic's positions, remove it or give the task another name: %w: %w",
			err, subscribe.ErrStop,
		)
	}
	found := kept{marks: make(map[int32]mark, len(d.Offsets)), topic: d.Topic, id: d.ID}
	for p, o := range d.Offsets {
		found.marks[p] = mark{
			Offset: o[0], Epoch: int32(o[1]), //nolint:gosec // G115: it was one when it was saved
			Attempts: recall.ParseAttempts(string(d.Attempts[p])).String(),
		}
	}
	if d.Topic == s.topic && d.ID == s.id {
		s.marks = maps.Clone(found.marks)
	}
	return found, nil
}

func (s *inStore) save(ctx context.Context, changed map[int32]mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.marks)
	maps.Copy(all, changed)
	d := document{
		Topic: s.topic, ID: s.id, Offsets: make(map[int32][2]int64, len(all)), Attempts: map[int32]json.RawMessage{},
	}
	for p, m := range all {
		if d.Offsets[p] = [2]int64{m.Offset, int64(m.Epoch)}; m.Attempts != "" {
			d.Attempts[p] = json.RawMessage(m.Attempts)
		}
	}
	value, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := s.checkpoint.SetValue(ctx, value); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	s.marks = all
	return nil
}

// renew has nothing to do: a checkpoint does not expire.
func (s *inStore) renew(context.Context) error { return nil }

// inBroker keeps positions as the committed offsets of a group that has no members.
type inBroker struct {
	client     *kgo.Client
	group      string
	topic      string
	id         [16]byte // of the topic: what was committed for one that is gone is refused
	partitions []int32
	by         author
	kept       subscribe.Checkpoint // remembers that there were positions, and in which topic
	remembers  string               // what the positions are of
	onConflict func(error)          // gets who else commits, or nil that no one does
	log        logr.Logger

	mu      sync.Mutex
	was     *recall.Mark
	marks   map[int32]mark // what is committed, as far as this run knows
	checked time.Time      // when that was last compared with the broker's
}

// checkEvery is how often a save first looks whether what was saved is still there.
const checkEvery = 10 * time.Second

// author is who commits, as the metadata of each commit says. Attempts follow it there.
type author struct {
	task  string // GROUP/NAME
	token int64
}

const authorPrefix = "shardctl "

func (a author) String() string { return authorPrefix + a.task + " " + strconv.FormatInt(a.token, 10) }

// authorOf reads what String wrote, and what follows it; false for what somebody else wrote.
func authorOf(metadata string) (by author, attempts string, ours bool) {
	rest, prefixed := strings.CutPrefix(metadata, authorPrefix)
	task, rest, two := strings.Cut(rest, " ")
	number, attempts, _ := strings.Cut(rest, " ")
	token, err := strconv.ParseInt(number, 10, 64)
	return author{task, token}, attempts, prefixed && two && err == nil
}

// attemptsIn are those that the metadata has; empty where it is not of this task.
func (a author) attemptsIn(metadata string) string {
	by, text, ours := authorOf(metadata)
	if !ours || by.task != a.task {
		return ""
	}
	return recall.ParseAttempts(text).String()
}

func (b *inBroker) String() string { return "group " + b.group }

func (b *inBroker) load(ctx context.Context) (kept, error) {
	found, err := b.fetch(ctx)
	if err != nil {
		return kept{}, err
	}
	was, err := recall.ReadMark(ctx, b.kept, b.remembers)
	if err != nil {
		return kept{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.was, b.marks, b.checked = was, map[int32]mark{}, time.Now()
	k := kept{marks: map[int32]mark{}, had: was.Had(), id: was.Origin()}
	if k.id != "" {
		k.topic = b.topic
	}
	for p, c := range found {
		k.marks[p], b.marks[p] = c.mark, c.mark
		if by, _, ours := authorOf(c.metadata); !ours || by.task != b.by.task {
			b.log.Info("A position was committed by somebody else", "position", positionOf(b.topic, p, c.Offset), "by",
				describe(c.metadata))
		}
	}
	return k, nil
}

func (b *inBroker) save(ctx context.Context, changed map[int32]mark) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.checked) >= checkEvery {
		if err := b.check(ctx); err != nil {
			return err
		}
	}
	if err := b.commit(ctx, changed); err != nil {
		return err
	}
	maps.Copy(b.marks, changed)
	return b.was.Keep(ctx, topic{id: b.id}.idText())
}

// renew commits again what is committed: a broker drops, by default after a week, what no one committed.
func (b *inBroker) renew(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.marks) == 0 {
		return nil
	}
	if err := b.check(ctx); err != nil {
		return err
	}
	return b.commit(ctx, b.marks)
}

func (b *inBroker) commit(ctx context.Context, marks map[int32]mark) error {
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = b.topic, b.id
	for p, m := range marks {
		metadata := strings.TrimSpace(b.by.String() + " " + m.Attempts)
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.LeaderEpoch, part.Metadata = p, m.Offset, m.Epoch, &metadata
		topic.Partitions = append(topic.Partitions, part)
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Topics = b.group, append(req.Topics, topic)
	resp, err := b.commitWithRetry(ctx, req)
	if err != nil {
		return fmt.Errorf("commit to group %s: %w", b.group, err)
	}
	var errs []error
	confirmed := 0
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			confirmed++
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				errs = append(errs, fmt.Errorf("commit to group %s, partition %d: %w", b.group, p.Partition, err))
			}
		}
	}
	if confirmed < len(marks) && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("commit to group %s: the broker confirmed %d of %d partitions", b.group,
			confirmed,
			len(marks)))
	}
	return field.Join(errs...)
}

// commitWithRetry sends a commit again for a while when the broker is away: an error would have what was worked on come
// again. That it may be committed twice makes no difference.
func (b *inBroker) commitWithRetry(ctx context.Context, req *kmsg.OffsetCommitRequest) (
	*kmsg.OffsetCommitResponse, error,
) {
	began := time.Now()
	for tries := 1; ; tries++ {
		resp, err := req.RequestWith(ctx, b.client)
		if err == nil || !isTransient(err) || time.Since(began) > retryFor {
			return resp, err
		}
		if clock.Sleep(ctx, pause(tries)) != nil {
			return nil, err
		}
	}
}

type committed struct {
	mark
	metadata string
}

// fetch asks for what is committed. A partition without is left out.
func (b *inBroker) fetch(ctx context.Context) (map[int32]committed, error) {
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic, topic.TopicID, topic.Partitions = b.topic, b.id, b.partitions
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group, group.Topics = b.group, append(group.Topics, topic)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, group)
	resp, err := req.RequestWith(ctx, b.client)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", b.group, err)
	}
	found := map[int32]committed{}
	for _, g := range resp.Groups {
		err := kerr.ErrorForCode(g.ErrorCode)
		if errors.Is(err, kerr.GroupIDNotFound) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", b.group, err)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("group %s, partition %d: %w", b.group, p.Partition, err)
				}
				if p.Offset < 0 {
					continue
				}
				c := committed{mark: mark{Offset: p.Offset, Epoch: p.LeaderEpoch}}
				if p.Metadata != nil {
					c.metadata = *p.Metadata
					c.Attempts = b.by.attemptsIn(c.metadata)
				}
				found[p.Partition] = c
			}
		}
	}
	return found, nil
}

// check compares what is committed with what this run committed. A newer owner's commit is an error: this run is stale.
// An older owner's is put right by the next commit. Anybody else's is reported, and stays so until a check finds none.
func (b *inBroker) check(ctx context.Context) error {
	found, err := b.fetch(ctx)
	if err != nil {
		return err
	}
	b.checked = time.Now()
	var rival error
	for _, p := range slices.Sorted(maps.Keys(b.marks)) {
		c, ok := found[p]
		by, _, ours := authorOf(c.metadata)
		switch {
		case !ok, c.mark == b.marks[p], ours && by == b.by:
		case ours && by.task == b.by.task && by.token > b.by.token:
			return fmt.Errorf("group %s, partition %d: a newer owner of the task, token %d, has committed: "+
				"this run, token %d, acknowledges nothing more", b.group, p, by.token, b.by.token)
		case ours && by.task == b.by.task:
			b.log.Info("An older owner committed late, the next commit puts that right",
				"position", positionOf(b.topic, p, c.Offset), "by", c.metadata)
		case rival == nil:
			rival = fmt.Errorf("somebody else commits to group %s for topic %s: partition %d is at offset %d, "+
				"by %s; each subscription has a name of its own: set kafka.group", b.group, b.topic, p, c.Offset,
				describe(c.metadata))
		}
	}
	b.onConflict(rival)
	return nil
}

// describe says who wrote the metadata.
func describe(metadata string) string {
	if by, _, ours := authorOf(metadata); ours {
		return "task " + by.task
	}
	return "a client that is not shardctl"
}
