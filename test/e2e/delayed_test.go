//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/seeds"
)

// delayer is a proxy between an application and its replica. It holds each reply for a random time.
type delayer struct {
	to    string             // the replica's socket
	holds chan time.Duration // for who waits: how long a reply is held, from now on

	mu      sync.Mutex
	random  *rand.Rand
	longest time.Duration
}

// newDelayer listens on a socket until the scenario ends.
func newDelayer(at, to string, random *rand.Rand, longest time.Duration) *delayer {
	GinkgoHelper()
	d := &delayer{to: to, holds: make(chan time.Duration), random: random, longest: longest}
	listener, err := net.Listen("unix", at)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = listener.Close() })
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			go d.relay(conn)
		}
	}()
	return d
}

// relay lets one call and its reply pass: the library makes a connection for each.
func (d *delayer) relay(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("unix", d.to)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close() // the application has given up
	}()
	reply := make([]byte, 4<<10)
	n, err := to.Read(reply)
	if err != nil {
		return
	}
	delay := d.delay()
	select {
	case d.holds <- delay:
	default:
	}
	time.Sleep(delay)
	if _, err := from.Write(reply[:n]); err == nil {
		_, _ = io.Copy(from, to)
	}
}

func (d *delayer) delay() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.random.Int64N(int64(d.longest) + 1))
}

// upTo sets the longest time for which a reply is held.
func (d *delayer) upTo(longest time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.longest = longest
}

// awaitHold returns when a reply has come that is held for a time between these, or the replica has ended.
func (d *delayer) awaitHold(ctx context.Context, replica *harness.Replica, from, to time.Duration) {
	GinkgoHelper()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for replica.Running() {
		select {
		case <-look.C:
		case held := <-d.holds:
			if held >= from && held <= to {
				return
			}
		case <-ctx.Done():
			Fail(fmt.Sprintf("no reply is held for %v to %v", from, to))
		}
	}
}

// delayed is a cluster of three replicas, each with an application behind a delayer that its replica does not start.
type delayed struct {
	*applications
	random   *rand.Rand
	names    []string
	replicas map[string]*harness.Replica
	delayers map[string]*delayer
}

func newDelayed(ctx context.Context, name string, arguments ...string) *delayed {
	GinkgoHelper()
	d := &delayed{
		applications: newApplications(name, 20), random: rand.New(rand.NewPCG(seeds.Of(GinkgoTB(), 0), 0)),
		names: []string{"a", "b", "c"}, replicas: map[string]*harness.Replica{}, delayers: map[string]*delayer{},
	}
	for _, instance := range d.names {
		d.replicas[instance] = d.with(ctx, instance)
		proxy := d.socket(instance + "-proxy")
		d.delayers[instance] = newDelayer(proxy, d.socket(instance), rand.New(rand.NewPCG(d.random.Uint64(), 0)), 0)
		// It is started again when it ends, as it does where the machine stands still.
		args := append([]string{
			"SHARDCTL_APP=unix:" + proxy, "SHARDCTL_INSTANCE=" + instance, "SHARDCTL_SESSION=none",
			"sh", "-c", `while :; do "$@"; done`, "sh",
		}, append(python(), arguments...)...)
		_, err := d.StartProgram("application-"+instance, "env", args...)
		Expect(err).NotTo(HaveOccurred())
	}
	d.run(len(d.names))
	d.upTo(Lease)
	return d
}

func (d *delayed) upTo(longest time.Duration) {
	for _, delayer := range d.delayers {
		delayer.upTo(longest)
	}
}

// revive starts the replicas again that gave up, as they do where the machine stands still.
func (d *delayed) revive(ctx context.Context) {
	GinkgoHelper()
	for _, name := range d.names {
		if !d.replicas[name].Running() {
			d.replicas[name] = d.with(ctx, name)
		}
	}
}

// round pins some keys elsewhere, and kills a worker while a reply to its application is held for about half of T. The
// library gives a call up after 0.75 T; what it was promised lasts for 0.8 T, and it cancels at three quarters of that.
func (d *delayed) round(ctx context.Context, n int) {
	GinkgoHelper()
	dies, asked := d.names[n%len(d.names)], d.names[(n+1)%len(d.names)]
	d.revive(ctx)
	EventuallyReady(ctx, d.replicas[asked])
	for range 3 {
		key := fmt.Sprintf("topics/topic-%03d", 1+d.random.IntN(d.keys))
		done(ctx, d.replicas[asked], "pin", key, d.names[d.random.IntN(len(d.names))])
	}
	d.delayers[dies].awaitHold(ctx, d.replicas[dies], Lease*9/20, Lease*13/20)
	if _, err := d.replicas[dies].Kill(harness.Worker, syscall.SIGKILL); err != nil {
		Expect(d.replicas[dies].Running()).To(BeFalse(), "%v", err)
	}
	d.upTo(0) // the others start its keys as soon as they may
	_, err := d.replicas[dies].Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	WaitUntil(ctx, history.Now().Add(Lease)) // until they run
	d.replicas[dies] = d.with(ctx, dies)
	d.upTo(Lease)
}

var _ = Describe("Applications whose replies are late, while workers die and keys move", Label("sqlite"), func() {
	DescribeTable("count what they are promised", func(ctx SpecContext, overlaps bool, rounds int, arguments ...string) {
		d := newDelayed(ctx, "app-delayed", arguments...)
		if overlaps {
			AllowOverlap(d.Cluster, "the application counts wrongly", func(history.Overlap) bool { return true })
		}
		n := 0
		for ; n < rounds && (!overlaps || len(Load(d.Cluster).Overlaps()) == 0); n++ {
			d.round(ctx, n)
		}
		d.upTo(0)
		d.revive(ctx)
		d.run(len(d.names))
		found := Load(d.Cluster).Overlaps()
		if overlaps {
			Expect(found).NotTo(BeEmpty())
		} else {
			Expect(found).To(BeEmpty())
		}
		longest := time.Duration(0)
		for _, o := range found {
			longest = max(longest, o.For)
		}
		Figure("sqlite", "replies held for up to %v, %d workers killed, application %v: %d overlaps, the longest of %v",
			Lease, n, arguments, len(found), longest.Round(time.Millisecond))
	},
		Entry("from when they called: no key runs twice", SpecTimeout(ScenarioTimeout), false, 2),
		Entry("from when they called, for long: no key runs twice", Label(Nightly),
			SpecTimeout(2*ScenarioTimeout), false, 20),
		Entry("from when the reply came, which is wrong: keys run twice", Label(Nightly), SpecTimeout(ScenarioTimeout),
			true, 20, "--from-arrival"))
})
