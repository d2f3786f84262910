package etcd_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/etcd"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// member answers for its state, and nothing else.
type member struct {
	etcdserverpb.UnimplementedMaintenanceServer

	is    *etcdserverpb.StatusResponse
	delay time.Duration
}

func (m member) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	time.Sleep(m.delay)
	return m.is, nil
}

// A member has time to answer when a store is opened, as for a log-in, also where calls of a short lease have less.
func TestOpeningOutlastsAShortLease(t *testing.T) {
	const timeout = time.Second / 6
	slow := member{is: &etcdserverpb.StatusResponse{Version: "3.4.36", Leader: 1}, delay: 2 * timeout}
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	_, err := etcd.Open(ctx, etcd.Options{URI: "etcd://" + serve(t, slow), Timeout: timeout})
	if !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("got %v, want what the member answered", err)
	}
}

// What a member says of itself decides whether it is used, refused, or passed over.
func TestMembersThatDoNotServe(t *testing.T) {
	for name, tt := range map[string]struct {
		is   *etcdserverpb.StatusResponse
		kind error
		want string
	}{
		"too old": {
			&etcdserverpb.StatusResponse{Version: "3.5.7", Leader: 1}, driver.ErrInvalid,
			"etcd is version 3.5.7, want 3.5.8 or newer: upgrade it",
		},
		"no version": {&etcdserverpb.StatusResponse{Leader: 1}, driver.ErrInvalid, "want 3.5.8 or newer"},
		"learner": {
			&etcdserverpb.StatusResponse{Version: "3.7.3", Leader: 1, IsLearner: true}, driver.ErrUnavailable,
			"the member is a learner",
		},
		"no leader": {&etcdserverpb.StatusResponse{Version: "3.7.3"}, driver.ErrUnavailable, "knows no leader"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := etcd.Open(t.Context(), etcd.Options{
				URI: "etcd://" + serve(t, member{is: tt.is}), Timeout: 10 * time.Second,
			})
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// serve has a member answer for its state until the test ends, and returns its address.
func serve(t *testing.T, m member) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	etcdserverpb.RegisterMaintenanceServer(server, m)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// An inspection names a member whose version may make notifications late. That is no reason not to use it.
func TestOlderMemberIsNamed(t *testing.T) {
	server := testservers.Shared(t, testservers.KindEtcd)
	older := serve(t, member{is: &etcdserverpb.StatusResponse{Version: "3.5.12"}}) // without a leader it is passed over
	s := storetest.Open(t, driver.Config{URI: strings.Replace(server.Database(), server.Addr, server.Addr+","+older, 1)})
	is := setting(t, s, "member http://"+older)
	if !is.Holds || !strings.Contains(is.Value, "notifications may be late before 3.5.13") {
		t.Errorf("%+v", is)
	}
	if is := setting(t, s, "member http://"+server.Addr); strings.Contains(is.Value, "late") {
		t.Errorf("%+v", is)
	}
}
