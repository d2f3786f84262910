package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// seenWithin is how long a change is waited for to be seen here once it is written: the answer shows it then.
const seenWithin = 2 * time.Second

// Change implements the changer of package admin.
func (r *Replica) Change(ctx context.Context, request operate.Request, preview bool) (api.ChangeResult, error) {
	n := r.node.Load()
	if n == nil || !n.cluster.View().Loaded {
		return api.ChangeResult{}, fmt.Errorf("%s: %w", request.Verb, elect.ErrUnavailable)
	}
	now, err := view.ReadAgain(ctx, n.store, n.cluster.View(), request.Keys())
	if err != nil {
		return api.ChangeResult{}, err
	}
	s, lists := r.settings.all()
	d, result, err := operate.Change(ctx, n.changes, operate.StateOf(s, lists, now), request, preview)
	if err != nil || preview {
		return result, err
	}
	n.awaitSeen(ctx, d)
	r.publish()
	return result, nil
}

// awaitSeen waits until the view shows what was written. It may be overtaken by another request.
func (n *node) awaitSeen(ctx context.Context, d operate.Decision) {
	ctx, cancel := context.WithTimeout(ctx, seenWithin)
	defer cancel()
	for {
		changed := n.cluster.Changed()
		if shows(n.cluster.View().Overrides, d) {
			return
		}
		select {
		case <-changed:
		case <-n.cluster.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

func shows(overrides []record.Override, d operate.Decision) bool {
	there := make(map[string]record.Override, len(overrides))
	for _, o := range overrides {
		there[o.ID()] = o
	}
	for _, o := range d.Put {
		if now, ok := there[o.ID()]; !ok || now.By != o.By || now.Reason != o.Reason || now.To != o.To ||
			now.Request != o.Request || now.Token < o.Token {
			return false
		}
	}
	for _, o := range d.Delete {
		if now, ok := there[o.ID()]; ok && now.Rev == o.Rev {
			return false
		}
	}
	return true
}
