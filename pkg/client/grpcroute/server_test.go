package grpcroute

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

const key = "g/a"

// server is an owner: a gRPC server that holds keys.
type server struct {
	grpc_health_v1.UnimplementedHealthServer
	address string
	closed  chan struct{}               // one for each connection that has ended
	answer  func(context.Context) error // called for a key that is held; nil: it is answered at once
	refusal func()                      // called when a key is refused

	mu       sync.Mutex
	held     map[string]int64
	answered []string // KEY TOKEN
	refused  int
	opened   int // connections
}

func serve(t *testing.T) *server {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: listener.Addr().String(), closed: make(chan struct{}, 10), held: map[string]int64{}}
	g := grpc.NewServer(grpc.StatsHandler(s))
	grpc_health_v1.RegisterHealthServer(g, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(listener)
	}()
	t.Cleanup(func() {
		g.Stop()
		<-done
	})
	return s
}

// hold has the server hold a key; 0: no longer. It returns what a replica says of it.
func (s *server) hold(key string, token int64) api.KeyOwner {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[key] = token
	return api.KeyOwner{Key: key, Owner: api.Owner{FencingToken: token}, Address: s.address}
}

func (s *server) check(ctx context.Context) error {
	key, token, err := Check(ctx, func(key string) (int64, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.held[key], s.held[key] != 0
	})
	if err != nil {
		s.mu.Lock()
		s.refused++
		s.mu.Unlock()
		if s.refusal != nil {
			s.refusal()
		}
		return err
	}
	s.mu.Lock()
	s.answered = append(s.answered, fmt.Sprint(key, " ", token))
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		return answer(ctx)
	}
	return nil
}

// counts are how many RPCs were answered and refused, and how many connections were made.
func (s *server) counts() [3]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return [3]int{len(s.answered), s.refused, s.opened}
}

func (s *server) Check(
	ctx context.Context, _ *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{}, s.check(ctx)
}

func (s *server) Watch(
	_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	if err := s.check(stream.Context()); err != nil {
		return err
	}
	return stream.Send(&grpc_health_v1.HealthCheckResponse{})
}

func (s *server) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (s *server) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (s *server) HandleRPC(context.Context, stats.RPCStats)                         {}

func (s *server) HandleConn(_ context.Context, event stats.ConnStats) {
	switch event.(type) {
	case *stats.ConnBegin:
		s.mu.Lock()
		s.opened++
		s.mu.Unlock()
	case *stats.ConnEnd:
		s.closed <- struct{}{}
	}
}

// table is a Router that follows a replica, which says what the test has it say.
type table struct {
	*client.Router
	health grpc_health_v1.HealthClient
	events chan string
}

func routing(t *testing.T, owners ...api.KeyOwner) *table {
	t.Helper()
	return routingWithin(t, time.Minute, owners...)
}

// routingWithin has RPCs wait that long for owners.
func routingWithin(t *testing.T, wait time.Duration, owners ...api.KeyOwner) *table {
	t.Helper()
	events := make(chan string)
	replica := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case event := <-events:
				_, _ = fmt.Fprint(w, event)
			case <-r.Context().Done():
				return
			}
		}
	}))
	c, err := client.New(replica.URL)
	if err != nil {
		t.Fatal(err)
	}
	tab := &table{Router: c.Router("g"), events: events}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tab.Run(ctx)
	}()
	conn, err := route{tab.Router, wait}.connect("topics",
		[]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		<-done
		replica.Close()
	})
	tab.health = grpc_health_v1.NewHealthClient(conn)
	tab.say("snapshot", api.List[api.KeyOwner]{Items: owners})
	return tab
}

// say has the replica send a change, and waits for it.
func (tab *table) say(kind string, what any) {
	data, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	_, changed := tab.Addresses()
	tab.events <- fmt.Sprintf("event: %s\nid: 1\ndata: %s\n\n", kind, data)
	<-changed
}

// call makes an RPC for a key.
func (tab *table) call(ctx context.Context, key string, opts ...grpc.CallOption) error {
	_, err := tab.health.Check(WithKey(ctx, key), nil, opts...)
	return err
}

// open opens a stream for a key, and reads its first message.
func (tab *table) open(ctx context.Context, key string) error {
	stream, err := tab.health.Watch(WithKey(ctx, key), nil)
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}
