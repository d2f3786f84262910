//go:build linux

package stores

import (
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
)

// What is told of an earlier write, or of another document, is not the notification of this one.
func TestAwaitNotice(t *testing.T) {
	at := func(rev int64) store.Notification {
		return store.Notification{Kind: store.KindOverride, ID: noted, Doc: &store.Doc{Rev: rev}}
	}
	other := store.Notification{Kind: store.KindOverride, ID: "pause/bench/b"}
	for name, tt := range map[string]struct {
		told bool
		left int
		sent []store.Notification
	}{
		"the one before comes twice": {true, 0, []store.Notification{at(6), other, at(7)}},
		"without the document":       {true, 1, []store.Notification{{ID: noted}, at(7)}},
		"all may have changed":       {false, 1, []store.Notification{{Resync: true}, at(7)}},
	} {
		notices := make(chan store.Notification, len(tt.sent))
		for _, n := range tt.sent {
			notices <- n
		}
		told, err := awaitNotice(t.Context(), notices, 7)
		if err != nil || told != tt.told || len(notices) != tt.left {
			t.Errorf("%s: %t, %v, %d left", name, told, err, len(notices))
		}
		if err := drain(notices); err != nil || len(notices) != 0 {
			t.Errorf("%s: drained: %v, %d left", name, err, len(notices))
		}
		close(notices)
		if _, err := awaitNotice(t.Context(), notices, 7); err == nil {
			t.Errorf("%s: a watch that ended tells", name)
		}
	}
}
