//go:build linux

package topics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/test/e2e/harness"
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

// consumers are the members of a consumer group.
type consumers struct {
	r       *rig
	member  member
	running map[string]*process
	order   []string // names of those that run, the oldest first
	made    int
}

// consumers makes a group without members, by one of the two protocols.
func (r *rig) consumers(ctx context.Context, protocol string) (*consumers, error) {
	group := strings.ToLower(protocol)
	if protocol == kip848 {
		if err := r.setTimeouts(ctx, group); err != nil {
			return nil, err
		}
	}
	return &consumers{
		r: r, running: map[string]*process{},
		member: member{
			group: group, topics: strings.Join(topicsOf(protocol), ","), protocol: protocol, session: timeout,
			events: true,
		},
	}, nil
}

// setTimeouts sets the times of a group of the newer protocol, whose members cannot choose them.
func (r *rig) setTimeouts(ctx context.Context, group string) error {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, d := range map[string]time.Duration{
		"consumer.session.timeout.ms": timeout, "consumer.heartbeat.interval.ms": timeout / 6,
	} {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = name, new(fmt.Sprint(d.Milliseconds()))
		resource.Configs = append(resource.Configs, config)
	}
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, r.client)
	if err != nil {
		return fmt.Errorf("set the times of group %s: %w", group, err)
	}
	for _, got := range response.Resources {
		if got.ErrorCode != 0 {
			return fmt.Errorf("set the times of group %s: error %d of Kafka: %s", group, got.ErrorCode,
				deref(got.ErrorMessage))
		}
	}
	return nil
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func (p *consumers) add(context.Context) error {
	p.made++
	name := fmt.Sprintf("%s-%d", p.member.group, p.made)
	m := p.member
	m.url = p.r.endpoint.url + "/" + name
	started, err := p.r.start(m, name)
	if err != nil {
		return err
	}
	p.running[name] = started
	p.order = append(p.order, name)
	return nil
}

func (p *consumers) live() []string { return slices.Clone(p.order) }

func (p *consumers) end(_ context.Context, name string, sig syscall.Signal) error {
	ended := p.running[name]
	if ended == nil {
		return fmt.Errorf("%s does not run", name)
	}
	p.order = slices.DeleteFunc(p.order, func(other string) bool { return other == name })
	delete(p.running, name)
	return ended.end(sig)
}

func (p *consumers) close() {
	for _, one := range p.running {
		_ = one.end(syscall.SIGKILL) // it may have ended
	}
}

// logs says where those of members are: they write little.
func (p *consumers) logs() string { return "logs of members are in " + p.r.dir }
