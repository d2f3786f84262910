//go:build linux

package topics

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/twmb/franz-go/pkg/kgo"
)

// MemberCommand is the first argument by which this program is a member of a consumer group.
const MemberCommand = "group-member"

// member is what a consumer of a group is started with.
type member struct {
	brokers, group, topics, url string
	protocol                    string
	session                     time.Duration
	slots                       int
	events                      bool // posts are CloudEvents, as a receiver of subscriptions wants them
}

// The ways of a group to agree on who takes what.
const (
	classic = "cooperative-sticky"
	kip848  = "KIP-848"
)

// Member is the main function of a process that consumes topics as a member of a group: it posts each message to
// URL/TOPIC, in order within a partition unless it has more slots, and commits after each fetch. It leaves the group in
// order when ctx ends.
func Member(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(MemberCommand, flag.ContinueOnError)
	var m member
	flags.StringVar(&m.brokers, "brokers", "", "HOST:PORT")
	flags.StringVar(&m.group, "group", "", "its name")
	flags.StringVar(&m.topics, "topics", "", "topics, separated by commas")
	flags.StringVar(&m.url, "url", "", "where messages go")
	flags.StringVar(&m.protocol, "protocol", classic, "how the group agrees")
	flags.DurationVar(&m.session, "session", 6*time.Second, "session time-out")
	flags.IntVar(&m.slots, "slots", 0, "posts at once; 0: one for each partition")
	flags.BoolVar(&m.events, "events", false, "post CloudEvents")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return m.run(ctx)
}

func (m *member) run(ctx context.Context) error {
	opts := []kgo.Opt{
		kgo.SeedBrokers(m.brokers), kgo.ConsumerGroup(m.group), kgo.ConsumeTopics(strings.Split(m.topics, ",")...),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(m.session), kgo.HeartbeatInterval(m.session / 6),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
	}
	if m.protocol == kip848 {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	// An orderly end: what is done is committed, and the group hears of the leave.
	defer client.CloseAllowingRebalance()
	poster := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 1000)
		if err := m.deliver(context.WithoutCancel(ctx), poster, fetches); err != nil {
			return err
		}
		if err := client.CommitUncommittedOffsets(context.WithoutCancel(ctx)); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "commit:", err) // the group has moved on: what follows is another member's
		}
		client.AllowRebalance()
	}
	return nil
}

// deliver posts all records of a fetch.
func (m *member) deliver(ctx context.Context, poster *http.Client, fetches kgo.Fetches) error {
	var all sync.WaitGroup
	errs := make(chan error, 1)
	send := func(record *kgo.Record) {
		if err := m.post(ctx, poster, record); err != nil {
			select {
			case errs <- err:
			default:
			}
		}
	}
	slots := make(chan struct{}, max(1, m.slots))
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if m.slots == 0 {
			all.Go(func() {
				for _, record := range p.Records {
					send(record)
				}
			})
			return
		}
		for _, record := range p.Records {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				send(record)
			})
		}
	})
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func (m *member) post(ctx context.Context, client *http.Client, record *kgo.Record) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/"+record.Topic,
		bytes.NewReader(record.Value))
	if err != nil {
		return err
	}
	if m.events {
		e := event.New()
		e.SetID(fmt.Sprintf("%s/%d/%d", record.Topic, record.Partition, record.Offset))
		e.SetSource("/group/" + record.Topic)
		e.SetType("record")
		e.SetSubject(string(record.Key))
		e.SetTime(record.Timestamp)
		if err := e.SetData("application/octet-stream", record.Value); err != nil {
			return err
		}
		if err := cehttp.WriteRequest(ctx, binding.ToMessage(&e), request); err != nil {
			return err
		}
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.Body.Close()
}

// process is a member that runs as a process of its own.
type process struct {
	cmd  *exec.Cmd
	done chan error
}

// start starts a member. What it says is in a file of the rig.
func (r *rig) start(m member, name string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out, err := os.Create(filepath.Join(r.dir, name+".log")) //nolint:gosec // in a directory of ours
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the process has its own
	if m.url == "" {
		m.url = r.endpoint.url
	}
	p := &process{done: make(chan error, 1)}
	args := []string{
		MemberCommand, "-brokers", r.broker.Addr(), "-group", m.group, "-topics", m.topics, "-url", m.url,
		"-protocol", m.protocol, "-session", m.session.String(), "-slots", fmt.Sprint(m.slots),
		fmt.Sprintf("-events=%v", m.events),
	}
	p.cmd = exec.Command(self, args...) //nolint:gosec,noctx // this program; it is ended by signals
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.done <- p.cmd.Wait() }()
	return p, nil
}

// end signals a member and waits for its end.
func (p *process) end(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	err := <-p.done
	p.done <- err
	if sig == syscall.SIGKILL {
		return nil
	}
	return err
}
