package grpcroute

import (
	"context"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRPCsGoToTheOwner(t *testing.T) {
	a, b := serve(t), serve(t)
	tab := routing(t, a.hold("g/a", 7), b.hold("g/b", 8), b.hold("g/c", 9))
	for _, key := range []string{"g/a", "g/b", "g/c", "g/a"} {
		// Metadata that came from elsewhere does not count.
		ctx := metadata.AppendToOutgoingContext(t.Context(), KeyMetadata, "g/x", TokenMetadata, "99")
		if err := tab.call(ctx, key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := tab.open(t.Context(), "g/b"); err != nil {
		t.Error(err)
	}
	if !slices.Equal(a.answered, []string{"g/a 7", "g/a 7"}) ||
		!slices.Equal(b.answered, []string{"g/b 8", "g/c 9", "g/b 8"}) {
		t.Errorf("%q, %q", a.answered, b.answered)
	}
	if a.counts()[2] != 1 || b.counts()[2] != 1 {
		t.Errorf("%d and %d connections", a.counts()[2], b.counts()[2])
	}
}

func TestRPCsWithoutAKeyAreRefused(t *testing.T) {
	tab := routing(t)
	for name, call := range map[string]func(context.Context, string) error{
		"unary":  func(ctx context.Context, key string) error { return tab.call(ctx, key) },
		"stream": tab.open,
	} {
		err := call(t.Context(), "")
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "grpcroute.WithKey") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A key moves back and forth. It is given back first, and its new owner is known last, or the other way round.
func TestRPCsFollowTheKey(t *testing.T) {
	owners := []*server{serve(t), serve(t)}
	tab := routing(t, owners[0].hold(key, 1))
	failed := make(chan error, 1)
	var moved atomic.Bool
	defer moved.Store(true)
	go func() {
		var err error
		for err == nil && !moved.Load() {
			err = tab.call(t.Context(), key)
		}
		failed <- err
	}()
	for token := int64(2); token < 12; token++ {
		was, next := owners[token%2], owners[(token+1)%2]
		answered := make(chan struct{}, 1)
		next.mu.Lock()
		next.answer = func(context.Context) error {
			select {
			case answered <- struct{}{}:
			default:
			}
			return nil
		}
		next.mu.Unlock()
		last := was.hold(key, 0)
		if token%3 == 0 {
			tab.say("delete", last)
		}
		tab.say("upsert", next.hold(key, token))
		select {
		case <-answered:
		case err := <-failed:
			t.Fatal(err)
		}
	}
	moved.Store(true)
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

// An RPC that was refused, or could not be sent, goes to the next owner. It goes there once.
func TestRPCsLookAgainOnce(t *testing.T) {
	for name, test := range map[string]struct {
		gone       bool // nothing listens at the first address
		stays      bool // no other owner comes
		alsoRefuse bool // the second one refuses
		want       codes.Code
		first      [2]int // answered, refused
		second     [2]int
	}{
		"a key that moved":          {want: codes.OK, first: [2]int{0, 1}, second: [2]int{1, 0}},
		"an owner that is gone":     {gone: true, want: codes.OK, second: [2]int{1, 0}},
		"two that refuse":           {alsoRefuse: true, want: codes.Unavailable, first: [2]int{0, 1}, second: [2]int{0, 1}},
		"the same one, a bit later": {stays: true, want: codes.Unavailable, first: [2]int{0, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := serve(t), serve(t)
			owner, next := first.hold(key, 7), second.hold(key, 8)
			first.hold(key, 0)
			if test.alsoRefuse {
				second.hold(key, 0)
			}
			if test.gone {
				owner.Address = "127.0.0.1:1"
			}
			wait := time.Minute
			if test.stays {
				wait = time.Millisecond
			}
			tab := routingWithin(t, wait, owner)
			switch {
			case test.gone:
				time.AfterFunc(10*time.Millisecond, func() { tab.say("upsert", next) })
			case !test.stays:
				first.refusal = func() { tab.say("upsert", next) }
			}
			err := tab.call(t.Context(), key)
			if status.Code(err) != test.want || test.want != codes.OK && !Refused(err) {
				t.Error(err)
			}
			if got := first.counts(); [2]int(got[:2]) != test.first {
				t.Errorf("the first owner answered and refused %v", got)
			}
			if got := second.counts(); [2]int(got[:2]) != test.second {
				t.Errorf("the second owner answered and refused %v", got)
			}
		})
	}
}

// What may have been carried out is not sent again: an owner may return the refusal that it got for another key.
func TestFailuresAreNotRepeated(t *testing.T) {
	_, _, other := Check(metadata.NewIncomingContext(t.Context(), metadata.Pairs(KeyMetadata, "g/other")),
		func(string) (int64, bool) { return 0, false })
	for _, err := range []error{other, status.Error(codes.Unavailable, "of its own")} {
		a := serve(t)
		a.answer = func(context.Context) error { return err }
		got := routingWithin(t, time.Millisecond, a.hold(key, 7)).call(t.Context(), key)
		if status.Code(got) != codes.Unavailable {
			t.Error(got)
		}
		if got := a.counts()[0]; got != 1 {
			t.Errorf("%v: sent %d times", err, got)
		}
	}
}

func TestStreamsAreOpenedAgainByTheCaller(t *testing.T) {
	a, b := serve(t), serve(t)
	tab := routing(t, a.hold(key, 7))
	a.hold(key, 0)
	if err := tab.open(t.Context(), key); !Refused(err) {
		t.Error(err)
	}
	tab.say("upsert", b.hold(key, 8))
	if err := tab.open(t.Context(), key); err != nil {
		t.Error(err)
	}
}

func TestRPCsWaitForAnOwner(t *testing.T) {
	a := serve(t)
	silent := a.hold(key, 7)
	silent.Address = ""
	for name, owners := range map[string][]api.KeyOwner{"none is known": nil, "it has no address": {silent}} {
		tab := routing(t, owners...)
		for _, opts := range [][]grpc.CallOption{nil, {grpc.WaitForReady(true)}} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			err := tab.call(ctx, key, opts...)
			cancel()
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), client.ErrNoOwner.Error()) {
				t.Errorf("%s: %v", name, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := tab.call(ctx, key); status.Code(err) != codes.Canceled {
			t.Errorf("%s: %v", name, err)
		}
		time.AfterFunc(10*time.Millisecond, func() { tab.say("upsert", a.hold(key, 8)) })
		if err := tab.call(t.Context(), key); err != nil {
			t.Errorf("%s: %v once there is one", name, err)
		}
	}
}

// An RPC that waits for a connection goes to the next owner, also when the addresses stay the same.
func TestRPCsThatWaitFollowTheKey(t *testing.T) {
	stopped, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stopped.Close() }()
	b := serve(t)
	first := api.KeyOwner{Key: key, Owner: api.Owner{FencingToken: 7}, Address: stopped.Addr().String()}
	another := first
	another.Key = "g/c"
	tab := routing(t, first, another, b.hold("g/b", 8))
	go func() {
		conn, err := stopped.Accept() // and never answers
		if err != nil {
			return
		}
		tab.say("upsert", b.hold(key, 9))
		<-t.Context().Done()
		_ = conn.Close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := tab.call(ctx, key); err != nil {
		t.Error(err)
	}
}

func TestPatience(t *testing.T) {
	ready, not := grpc.WaitForReady(true), grpc.WaitForReady(false)
	for _, test := range []struct {
		opts []grpc.CallOption
		want time.Duration
	}{
		{nil, client.DefaultWait},
		{[]grpc.CallOption{ready, grpc.StaticMethod()}, math.MaxInt64},
		{[]grpc.CallOption{ready, not}, client.DefaultWait},
		{[]grpc.CallOption{not, ready}, math.MaxInt64},
	} {
		if got := (route{wait: client.DefaultWait}).patience(test.opts); got != test.want {
			t.Errorf("%v: %v, want %v", test.opts, got, test.want)
		}
	}
}

// The connection to an address that no key names any more ends, and the RPC on it does before.
func TestConnectionsEndWithTheirKeys(t *testing.T) {
	a, b := serve(t), serve(t)
	begun, end := make(chan struct{}), make(chan struct{})
	a.answer = func(context.Context) error {
		close(begun)
		<-end
		return nil
	}
	ours := a.hold(key, 7)
	tab := routing(t, ours, b.hold("g/b", 8))
	answered := make(chan error)
	go func() { answered <- tab.call(t.Context(), key) }()
	<-begun
	if err := tab.call(t.Context(), "g/b"); err != nil {
		t.Error(err)
	}
	tab.say("delete", ours)
	close(end)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	select {
	case <-a.closed:
	case <-time.After(30 * time.Second):
		t.Fatal("the connection goes on")
	}
	if err := tab.call(t.Context(), "g/b"); err != nil {
		t.Error(err)
	}
	if len(b.closed) != 0 || b.counts()[2] != 1 {
		t.Errorf("%d connections to the other address, %d ended", b.counts()[2], len(b.closed))
	}
}

func TestCheck(t *testing.T) {
	held := func(k string) (int64, bool) { return 7, k == key }
	for _, test := range []struct {
		key, token string
		want       codes.Code
	}{
		{key, "7", codes.OK},
		{key, "6", codes.OK}, // the sender is behind
		{key, "", codes.OK},
		{key, "8", codes.Unavailable}, // this process is behind
		{"g/b", "7", codes.Unavailable},
		{"", "7", codes.InvalidArgument},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(
			strings.ToLower(api.KeyHeader), test.key, strings.ToLower(api.TokenHeader), test.token))
		k, token, err := Check(ctx, held)
		if status.Code(err) != test.want || Refused(err) != (test.want == codes.Unavailable) {
			t.Errorf("%+v: %v", test, err)
		}
		if err == nil && (k != key || token != 7) {
			t.Errorf("%+v: %s %d", test, k, token)
		}
	}
	if _, _, err := Check(t.Context(), held); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without metadata: %v", err)
	}
}
