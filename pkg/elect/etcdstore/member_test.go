package etcdstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/shardctl/shardctl/pkg/elect/etcdstore"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// member answers for its state, and nothing else.
type member struct {
	etcdserverpb.UnimplementedMaintenanceServer

	is *etcdserverpb.StatusResponse
}

func (m member) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return m.is, nil
}

// What a member says of itself decides whether it is used, refused, or passed over.
func TestMembersThatDoNotServe(t *testing.T) {
	for name, tt := range map[string]struct {
		is   *etcdserverpb.StatusResponse
		kind error
		want string
	}{
		"too old": {
			&etcdserverpb.StatusResponse{Version: "3.4.36", Leader: 1}, store.ErrInvalid,
			"etcd is version 3.4.36, want 3.5.3 or newer: upgrade it",
		},
		"no version": {&etcdserverpb.StatusResponse{Leader: 1}, store.ErrInvalid, "want 3.5.3 or newer"},
		"learner": {
			&etcdserverpb.StatusResponse{Version: "3.7.3", Leader: 1, IsLearner: true}, store.ErrUnavailable,
			"the member is a learner",
		},
		"no leader": {&etcdserverpb.StatusResponse{Version: "3.7.3"}, store.ErrUnavailable, "knows no leader"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer()
			etcdserverpb.RegisterMaintenanceServer(server, member{is: tt.is})
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			_, err = etcdstore.Open(t.Context(), etcdstore.Options{
				URI: "etcd://" + listener.Addr().String(), Timeout: 10 * time.Second,
			})
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			server.Stop()
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		})
	}
}
