package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/subscribe"
)

// Open connects, finds where to begin, and keeps that place where none was kept. It ends within 15 s.
func (s Source) Open(ctx context.Context, session subscribe.Session) (subscribe.Subscription, error) {
	set, err := s.settings(session)
	if err != nil {
		return nil, err
	}
	within, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	within, cancel := context.WithTimeoutCause(within, openWithin, errNoAnswer)
	defer cancel()
	// Each broker is tried once more, and then what is wrong is said: to go on trying is for the caller.
	h := &health{say: session.Trouble, enough: len(set.brokers) + 1, refuse: refuse}
	client, err := set.connect(h)
	if err != nil {
		return nil, set.explain(err)
	}
	o := &opening{settings: set, session: session, client: client, health: h}
	sub, err := o.open(within)
	if err != nil {
		client.Close()
		return nil, set.explain(because(within, h, err))
	}
	return sub, nil
}

// opening is a subscription that is being opened.
type opening struct {
	*settings
	session subscribe.Session
	client  *kgo.Client
	health  *health
	topicIs topic
	kept    positions
	before  kept // what was kept when it was opened
}

func (o *opening) open(ctx context.Context) (*subscription, error) {
	var err error
	if o.topicIs, err = describeTopic(ctx, o.client, o.topic); err != nil {
		return nil, err
	}
	partitions, err := o.chosen()
	if err != nil {
		return nil, err
	}
	o.kept = o.positions(partitions)
	o.preconnect(ctx, partitions)
	if o.before, err = o.kept.load(ctx); err != nil {
		return nil, err
	}
	if of := o.before.topic; of != "" && of != o.topic {
		for _, p := range slices.Sorted(maps.Keys(o.before.marks)) {
			o.session.Log.Info("A position of another topic is dropped", "position",
				positionOf(of, p, o.before.marks[p].Offset))
		}
		o.before = kept{}
	}
	begin, sure, err := o.resume(ctx, o.before, partitions)
	var absent absentError
	if err == nil && !sure {
		if begin, absent, err = o.beginAll(ctx, partitions); err == nil {
			o.consume(begin)
		}
	}
	if err != nil {
		return nil, err
	}
	sub := newSubscription(o, begin, absent)
	o.health.begin()
	return sub, nil
}

// How long the partitions of a topic without positions are waited for that are absent. A broker takes part of a second
// to lead those of a topic that was just created.
const (
	firstPause = 100 * time.Millisecond // doubled each time
	lastPause  = 800 * time.Millisecond
)

// beginAll is where each partition begins that is not absent. One at least has to be there.
func (o *opening) beginAll(ctx context.Context, partitions []int32) (map[int32]mark, absentError, error) {
	if err := field.Join(o.gone(o.before)...); err != nil {
		return nil, nil, err
	}
	began := clock.Wall()
	begin, absent, err := o.begin(ctx, o.before, partitions)
	if o.latest && len(absent) > 0 {
		// For those that are absent: nothing that is published until they are there is skipped.
		o.latest, o.at = false, began
	}
	fresh := len(o.before.marks) == 0
	for pause := firstPause; fresh && err == nil && len(absent) > 0 && pause <= lastPause; pause *= 2 {
		_ = clock.Sleep(ctx, pause) // begin looks at ctx
		var more map[int32]mark
		more, absent, err = o.begin(ctx, o.before, absent.partitions())
		maps.Copy(begin, more)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case len(begin) == 0:
		return nil, nil, absent
	}
	return begin, absent, nil
}

// chosen are the partitions to consume.
func (o *opening) chosen() ([]int32, error) {
	if len(o.partitions) == 0 {
		return upTo(o.topicIs.partitions), nil
	}
	for _, p := range o.partitions {
		if int(p) >= o.topicIs.partitions {
			return nil, fmt.Errorf("there is no partition %d, the topic has %d: add partitions, or take it out of "+
				"kafka.partitions", p, o.topicIs.partitions)
		}
	}
	return o.partitions, nil
}

func upTo(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}

func (o *opening) positions(partitions []int32) positions {
	if o.inStore {
		return &inStore{checkpoint: o.session.Checkpoint, topic: o.topic, id: o.topicIs.idText()}
	}
	of := "topic " + o.topic + ", group " + o.group
	if len(o.partitions) > 0 {
		of += fmt.Sprintf(", partitions %d", slices.Sorted(slices.Values(o.partitions)))
	}
	return &inBroker{
		kept: o.session.Checkpoint, remembers: of,
		client: o.client, group: o.group, topic: o.topic, id: o.topicIs.id, partitions: partitions,
		by:         author{o.session.Group + "/" + o.session.Name, o.session.Token},
		onConflict: func(err error) { o.health.set("group", err) },
		log:        o.session.Log,
	}
}

// preconnect connects to the leaders of the partitions while the positions are read. Messages come by a connection of
// their own, and with TLS and SASL that takes six round trips or so. What fails here fails again when it matters.
func (o *opening) preconnect(ctx context.Context, partitions []int32) {
	reached := map[int32]bool{}
	for _, p := range partitions {
		leader := o.topicIs.leaders[p]
		if leader < 0 || reached[leader] {
			continue
		}
		reached[leader] = true
		go func() { // until it is answered, or the client is closed
			nothing := kmsg.NewPtrFetchRequest() // it asks for no partition, so it is answered at once
			_, _ = o.client.Broker(int(leader)).Request(context.WithoutCancel(ctx), nothing)
		}()
	}
}

// resume is where each partition goes on, when that is sure without the log's range: all positions were kept, and the
// log is still the one they are of. Retention may have passed them by. Then the first fetch says so. Messages are asked
// for while the brokers look whether it is that log; no one receives them before.
func (o *opening) resume(ctx context.Context, k kept, partitions []int32) (begin map[int32]mark, sure bool, err error) {
	if k.topic != "" && k.id != o.topicIs.idText() {
		return nil, false, nil
	}
	begin = only(k.marks, partitions)
	if len(begin) < len(partitions) || len(begin) < len(k.marks) {
		return nil, false, nil
	}
	for _, m := range begin {
		if m.Epoch < 0 {
			return nil, false, nil
		}
	}
	o.consume(begin)
	ends, err := endsOfEpochs(ctx, o.client, o.topic, begin)
	if _, some := errors.AsType[absentError](err); err != nil && !some {
		return nil, false, err
	}
	for p, m := range begin {
		if end, known := ends[p]; !known || end < m.Offset {
			o.client.RemoveConsumePartitions(map[string][]int32{o.topic: partitions}) // with what was fetched
			return nil, false, nil
		}
	}
	return begin, true, nil
}

// consume begins with partitions at their marks.
func (o *opening) consume(begin map[int32]mark) {
	offsets := make(map[int32]kgo.Offset, len(begin))
	for p, m := range begin {
		offsets[p] = kgo.NewOffset().At(m.Offset)
	}
	o.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{o.topic: offsets})
}

// begin is where each partition begins that is not absent. What is not kept yet is kept before it returns: nothing that
// is published from now on is skipped by a fail-over.
func (o *opening) begin(ctx context.Context, k kept, partitions []int32) (map[int32]mark, absentError, error) {
	all, absent, err := o.find(ctx, k, partitions)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	begin, fresh := map[int32]mark{}, map[int32]mark{}
	for _, p := range partitions {
		f, there := all[p]
		if !there {
			continue
		}
		at, lost, err := f.begin(o.missing)
		if err != nil {
			errs = append(errs, fmt.Errorf("partition %d (%s): %w", p, o.kept, err))
			continue
		}
		begin[p] = at
		switch log := o.session.Log; {
		case lost != "":
			position := fmt.Sprintf("%s/%d", o.topic, p)
			if f.kept != nil {
				position = positionOf(o.topic, p, f.kept.Offset)
			}
			log.Info("A position is lost, going on elsewhere: messages may be skipped or come again",
				"position", position, "to", positionOf(o.topic, p, at.Offset), "reason", lost)
		case f.kept == nil:
			subscribe.LogBeginning(log, positionOf(o.topic, p, at.Offset))
		}
		if f.kept == nil || lost != "" {
			fresh[p] = at
		}
	}
	if len(errs) == 0 && len(fresh) > 0 {
		if err := o.kept.save(ctx, fresh); err != nil {
			errs = append(errs, err)
		}
	}
	return begin, absent, field.Join(errs...)
}

// gone says which positions are of partitions that the topic does not have.
func (o *opening) gone(k kept) []error {
	var errs []error
	for _, p := range slices.Sorted(maps.Keys(k.marks)) {
		switch {
		case int(p) < o.topicIs.partitions:
		case o.missing == subscribe.Stop:
			errs = append(errs, fmt.Errorf("partition %d (%s): position %d is lost: the topic has %d partitions: it was "+
				"deleted and created again, set kafka.missing to earliest or latest to go on: %w",
				p, o.kept, k.marks[p].Offset, o.topicIs.partitions, subscribe.ErrStop))
		default:
			position := positionOf(o.topic, p, k.marks[p].Offset)
			o.session.Log.Info("A partition is gone with its position", "position", position)
		}
	}
	return errs
}

// find gathers what is known of the partitions that are not absent.
func (o *opening) find(ctx context.Context, k kept, partitions []int32) (map[int32]found, absentError, error) {
	var first, end, start, common map[int32]int64
	recreated := k.id != "" && o.topicIs.idText() != "" && k.id != o.topicIs.idText()
	absent, mu := absentError{}, sync.Mutex{}
	var g errgroup.Group
	ask := func(ask func() error) {
		g.Go(func() error {
			err := ask()
			if some, ok := errors.AsType[absentError](err); ok {
				mu.Lock()
				defer mu.Unlock()
				maps.Copy(absent, some)
				return nil
			}
			return err
		})
	}
	list := func(to *map[int32]int64, at int64) {
		ask(func() (err error) {
			*to, err = listOffsets(ctx, o.client, o.topic, partitions, at, 0)
			return err
		})
	}
	list(&first, atFirst)
	list(&end, atEnd)
	if !o.at.IsZero() {
		list(&start, o.at.UnixMilli())
	}
	if !recreated {
		ask(func() (err error) {
			common, err = endsOfEpochs(ctx, o.client, o.topic, only(k.marks, partitions))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	// A partition without a position beside others that have one was added: it counts from its beginning.
	added := len(o.partitions) == 0 && len(k.marks) > 0
	all := map[int32]found{}
	for _, p := range partitions {
		if absent[p] != nil {
			continue
		}
		f := found{
			first: first[p], end: end[p], common: -1, start: first[p], recreated: recreated,
			gone: k.had && len(k.marks) == 0,
		}
		if m, ok := k.marks[p]; ok {
			f.kept = &m
		}
		if c, ok := common[p]; ok {
			f.common = c
		}
		switch {
		case added:
		case o.latest, !o.at.IsZero() && start[p] < 0:
			f.start = end[p]
		case !o.at.IsZero():
			f.start = start[p]
		}
		all[p] = f
	}
	return all, absent, nil
}

func only(marks map[int32]mark, partitions []int32) map[int32]mark {
	some := map[int32]mark{}
	for _, p := range partitions {
		if m, ok := marks[p]; ok {
			some[p] = m
		}
	}
	return some
}

// found is what is known of a partition when a subscription opens.
type found struct {
	kept       *mark // nil: no position was kept, or it is gone
	gone       bool  // all positions are: there were some
	first, end int64 // the log holds the offsets from first up to, and without, end
	common     int64 // how far the log is the one that kept is of; -1: not known
	start      int64 // where to begin without a position
	recreated  bool  // kept is of an earlier topic of this name
}

// lost says why the log does not hold the position; empty: it does.
func (f found) lost() string {
	switch {
	case f.kept == nil && !f.gone:
		return ""
	case f.recreated:
		return "the topic was deleted and created again"
	case f.kept == nil:
		return "the group has no position in the topic any more: it was deleted, or its positions have expired"
	case f.kept.Offset < f.first:
		return fmt.Sprintf("the messages before offset %d were deleted", f.first)
	case f.kept.Offset > f.end:
		return fmt.Sprintf("the log was truncated and ends at offset %d, or the topic is another", f.end)
	case f.common >= 0 && f.kept.Offset > f.common:
		return fmt.Sprintf("the log was truncated at offset %d and goes on with other messages", f.common)
	}
	return ""
}

// begin is where to begin, and why not at the position that was kept; with missing: stop that is an error.
func (f found) begin(missing string) (at mark, lost string, err error) {
	lost = f.lost()
	switch {
	case lost == "" && f.kept == nil:
		return mark{Offset: f.start, Epoch: -1}, "", nil
	case lost == "":
		return *f.kept, "", nil
	case missing == subscribe.Latest:
		return mark{Offset: f.end, Epoch: -1}, lost, nil
	case missing == subscribe.Earliest:
		return mark{Offset: f.earliest(), Epoch: -1}, lost, nil
	}
	position := "the position"
	if f.kept != nil {
		position = fmt.Sprintf("position %d", f.kept.Offset)
	}
	return mark{}, lost, fmt.Errorf("%s is lost: %s; the log holds offsets %d to %d: "+
		"set kafka.missing to earliest or latest to go on from there: %w",
		position, lost, f.first, f.end-1, subscribe.ErrStop)
}

// earliest is where a lost position goes on so that nothing is skipped. Where the log is known to be the same one up to
// an offset, what comes before that was worked on.
func (f found) earliest() int64 {
	if f.kept != nil && !f.recreated && f.common >= f.first && f.common <= f.end && f.kept.Offset > f.common {
		return f.common
	}
	return f.first
}
