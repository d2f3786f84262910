//go:build linux

package stores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/test/e2e/history"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// floor is what a store takes for the steps that everything is made of, one after the other, with no other load.
type floor struct {
	write, writeP99 time.Duration // a compare-and-set that is durable
	notice          time.Duration // from its sending to another client's notification, p50
}

const (
	writes      = 200 // that are measured; as many more warm up
	noticeLimit = 20 * time.Second
	callTimeout = lab.DefaultLease / 6
)

// measureFloor writes one document again and again, and waits for each notification.
func measureFloor(ctx context.Context, uri string) (f floor, err error) {
	config := store.Config{URI: uri, Timeout: callTimeout}
	writer, err := store.Open(ctx, config)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, writer.Close(context.WithoutCancel(ctx))) }()
	reader, err := store.Open(ctx, config)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, reader.Close(context.WithoutCancel(ctx))) }()
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	notices, err := reader.Watch(watching, store.Interest{Kinds: []store.Kind{store.KindOverride}})
	if err != nil {
		return f, fmt.Errorf("watch: %w", err)
	}
	<-notices // the first one says that all may have changed
	var took, seen []time.Duration
	for i := range 2 * writes {
		rev := int64(i + 1)
		sent := time.Now()
		outcomes, err := writer.Apply(ctx, store.Change{IfRev: rev - 1, Doc: store.Doc{
			Kind: store.KindOverride, ID: "pause/bench/a", Rev: rev, WriterID: store.WriterID{Session: "bench", Seq: rev},
		}})
		if err != nil || outcomes[0].Status != store.Applied {
			return f, fmt.Errorf("write %d: %v, %w", rev, outcomes, err)
		}
		acknowledged := time.Since(sent)
		if err := awaitNotice(ctx, notices); err != nil {
			return f, err
		}
		if i >= writes {
			took, seen = append(took, acknowledged), append(seen, time.Since(sent))
		}
	}
	f.write, f.writeP99 = history.Percentile(took, 50), history.Percentile(took, 99)
	f.notice = history.Percentile(seen, 50)
	return f, nil
}

func awaitNotice(ctx context.Context, notices <-chan store.Notification) error {
	limit := time.NewTimer(noticeLimit)
	defer limit.Stop()
	select {
	case _, open := <-notices:
		if !open {
			return errors.New("the watch ended")
		}
		return nil
	case <-limit.C:
		return fmt.Errorf("no notification within %v", noticeLimit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
