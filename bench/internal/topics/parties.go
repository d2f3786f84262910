//go:build linux

package topics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/shardctl/shardctl/test/e2e/harness"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// party is processes that share topics among them. It is for one goroutine.
type party interface {
	// add starts one more, under a name that none had before.
	add(ctx context.Context) error
	// live are the names of those that run, the oldest first.
	live() []string
	// end signals one and waits for its end.
	end(ctx context.Context, name string, sig syscall.Signal) error
	// close ends all.
	close()
	// logs are the last lines of those that run, for an error's text.
	logs() string
}

// replicas are those of shardctl, with a subscription for each topic and a few commands beside them.
type replicas struct {
	*harness.Cluster

	r      *rig
	name   string
	groups string
	made   int
}

// ours makes a cluster of shardctl on a store; an empty URI is SQLite. Its commands write the time, so that their
// hand-overs can be compared.
func (r *rig) ours(b *lab.Lab, name, store string) (*replicas, error) {
	c, err := r.cluster(b, harness.Options{
		StoreURI: store, Lease: timeout, Tasks: commands, Recorder: []string{"--period", commandPeriod.String()},
	})
	if err != nil {
		return nil, err
	}
	name = strings.ToLower(name)
	return &replicas{Cluster: c, r: r, name: name, groups: fmt.Sprintf(`groups:
  - name: streams
    cap: %d
    tasks:
      - name: %s
        kafka: {brokers: %q, topic: $(SHARDCTL_TASK), group: shardctl}
        deliver: {http: {url: %q}}
`, mostTopics, fmt.Sprintf("%s-{001..%03d}", name, shared), r.broker.Addr(),
		r.endpoint.url+"/$(SHARDCTL_INSTANCE)/$(SHARDCTL_TASK)")}, nil
}

func (p *replicas) add(ctx context.Context) error {
	p.made++
	_, err := p.r.replica(ctx, p.Cluster, fmt.Sprintf("%s-%d", p.name, p.made), p.groups)
	return err
}

func (p *replicas) live() []string {
	var names []string
	for _, replica := range p.Live() {
		names = append(names, replica.Name)
	}
	return names
}

func (p *replicas) end(ctx context.Context, name string, sig syscall.Signal) error {
	at := slices.IndexFunc(p.Live(), func(r *harness.Replica) bool { return r.Name == name })
	if at < 0 {
		return fmt.Errorf("%s does not run", name)
	}
	replica, part := p.Live()[at], harness.Guard
	if sig == syscall.SIGKILL {
		part = harness.Both
	}
	if _, err := replica.Kill(part, sig); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	_, err := replica.Wait(ctx)
	return err
}

func (p *replicas) close() { p.Close() }

func (p *replicas) logs() string { return p.Logs(8) }
