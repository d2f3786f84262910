//go:build linux

package topics

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/testbroker"
)

// rig is a Kafka, a client of it, and an endpoint that notes when each message came.
type rig struct {
	broker   *testbroker.Server
	client   *kgo.Client
	admin    *kadm.Client
	dir      string
	endpoint *endpoint
}

func openRig(ctx context.Context, b *lab.Lab, name string) (_ *rig, err error) {
	r := &rig{}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.dir, err = os.MkdirTemp(b.Work, name+"-"); err != nil {
		return nil, err
	}
	if r.endpoint, err = newEndpoint(ctx); err != nil {
		return nil, err
	}
	r.broker, err = testbroker.Open(ctx, testbroker.KindKafka, filepath.Join(r.dir, "kafka"), testbroker.Options{})
	if err != nil {
		return nil, err
	}
	r.client, err = kgo.NewClient(
		kgo.SeedBrokers(r.broker.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(100*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	r.admin = kadm.NewClient(r.client)
	return r, nil
}

func (r *rig) close() {
	if r.client != nil {
		r.client.Close()
	}
	if r.broker != nil {
		r.broker.Close()
	}
	if r.endpoint != nil {
		r.endpoint.close()
	}
}

// create makes topics and waits until the broker serves them.
func (r *rig) create(ctx context.Context, partitions int32, topics ...string) error {
	if _, err := r.admin.CreateTopics(ctx, partitions, 1, nil, topics...); err != nil {
		return err
	}
	return lab.Until(ctx, func() error {
		offsets, err := r.admin.ListEndOffsets(ctx, topics...)
		if err != nil {
			return err
		}
		return offsets.Error()
	})
}

// fill publishes n messages to a topic, evenly over its partitions.
func (r *rig) fill(ctx context.Context, topic string, partitions int32, n int) error {
	body := make([]byte, messageSize)
	records := make([]*kgo.Record, n)
	for i := range n {
		records[i] = &kgo.Record{
			Topic: topic, Partition: int32(i) % partitions, Key: strconv.AppendInt(nil, int64(i%1000), 10), Value: body,
		}
	}
	return r.client.ProduceSync(ctx, records...).FirstErr()
}

// messageSize is how many bytes a message of the measurements has.
const messageSize = 200

// replica starts one replica of a cluster with the groups of the text, beside the commands of the cluster.
func (r *rig) replica(ctx context.Context, c *harness.Cluster, name, groups string) (*harness.Replica, error) {
	file := filepath.Join(r.dir, name+".yaml")
	if err := os.WriteFile(file, []byte(groups), 0o600); err != nil {
		return nil, err
	}
	return c.Start(ctx, name, "--config", file)
}

// quiet is a cluster with one command.
var quiet = harness.Options{Lease: lab.DefaultLease, Tasks: 1}

// cluster is one on SQLite, unless o names another store.
func (r *rig) cluster(b *lab.Lab, o harness.Options) (*harness.Cluster, error) {
	dir, err := os.MkdirTemp(r.dir, "cluster-")
	if err != nil {
		return nil, err
	}
	if o.StoreURI == "" {
		o.StoreURI = "sqlite:" + filepath.Join(dir, "locks.db")
	}
	o.Settle = lab.Settle
	return harness.NewCluster(b.Bins, dir, o)
}

// endpoint answers each request with 204.
type endpoint struct {
	url    string
	server *http.Server

	mu   sync.Mutex
	seen func(delivery) // nil: no one is interested
}

func newEndpoint(ctx context.Context) (*endpoint, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &endpoint{url: fmt.Sprintf("http://%s", listener.Addr())}
	e.server = &http.Server{Handler: http.HandlerFunc(e.take), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = e.server.Serve(listener) }() // until close
	return e, nil
}

// delivery is a request that the endpoint got. Its path is /TOPIC, or /BY/TOPIC where several deliver.
type delivery struct {
	topic, by string
	at        time.Time
	messages  int
}

// batch is the type of requests with several messages.
const batch = "application/cloudevents-batch+json"

// take notes a request.
func (e *endpoint) take(w http.ResponseWriter, request *http.Request) {
	messages := 1
	if request.Header.Get("Content-Type") == batch {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return // the sender has gone, and sends it again
		}
		messages = bytes.Count(body, []byte(`"specversion"`))
	} else {
		_, _ = io.Copy(io.Discard, request.Body)
	}
	e.mu.Lock()
	if e.seen != nil {
		by, topic := path.Split(request.URL.Path)
		e.seen(delivery{topic: topic, by: strings.Trim(by, "/"), at: time.Now(), messages: messages})
	}
	e.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// note has f called with each request from now on.
func (e *endpoint) note(f func(delivery)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = f
}

func (e *endpoint) close() { _ = e.server.Close() }

// batches is in how many parts of a period the messages of all topics are sent: one burst would be a queue.
const batches = 4

// load sends a message to each topic once a period, until stop.
type load struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex
	err error // the first message that was not taken
}

func (r *rig) load(ctx context.Context, topics []string, period time.Duration) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		ticks := time.NewTicker(period / batches)
		defer ticks.Stop()
		body := make([]byte, messageSize)
		for n := 0; ; n++ {
			for i := n % batches; i < len(topics); i += batches {
				r.client.Produce(ctx, &kgo.Record{Topic: topics[i], Value: body}, l.sent(ctx))
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return l
}

// sent notes a message that was not taken, unless the load has ended.
func (l *load) sent(ctx context.Context) func(*kgo.Record, error) {
	return func(record *kgo.Record, err error) {
		if err == nil || ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err == nil {
			l.err = fmt.Errorf("send to %s: %w", record.Topic, err)
		}
	}
}

// stop ends the load, and says what was not sent.
func (l *load) stop() error {
	l.cancel()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
