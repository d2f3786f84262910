package docs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardctl/shardctl/pkg/client"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencyhttp"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencystore"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/mutex/mutexmetrics"
	"github.com/shardctl/shardctl/pkg/shard"
	"github.com/shardctl/shardctl/pkg/shard/shardhttp"
	"github.com/shardctl/shardctl/pkg/shardctl"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// What follows are the parts of programs that pages show. They are compiled here, and never run.
var _ = []any{
	mountHandler, keepCheckpoint, useClient, deduplicateMessages, deduplicateInSQL, deduplicateInStore, deduplicateHTTP,
	measureMutexes, shortenLease, routeRequests, saveOrder, ownProgram, (*owned).work, (*owned).ServeHTTP,
}

func mountHandler(mux *http.ServeMux, replica *shard.Replica) {
	mux.Handle("/shards/", http.StripPrefix("/shards", shardhttp.Handler(replica, shardhttp.Options{})))
}

func keepCheckpoint(ctx context.Context, lease shard.Lease, consume func(position []byte) []byte) error {
	position, err := lease.Value(ctx) // nil: nothing was set yet
	if err != nil {
		return err
	}
	position = consume(position)
	err = lease.SetValue(ctx, position) // nil: it is kept
	return err
}

func useClient(ctx context.Context) error {
	c, err := client.New("http://127.0.0.1:8081", client.WithTokenFile("/etc/shardctl/token"))
	if err != nil {
		return err
	}
	failing, err := c.Tasks().List(ctx, client.Filter{State: "backoff,failed"})
	if err != nil {
		return err
	}
	_, err = c.Instances().Drain(ctx, "web-1", client.ChangeOptions{Reason: "a new kernel"})
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("web-1 is gone, and %d tasks fail", len(failing))
	}
	return err
}

type payment struct {
	ID   string
	Body []byte
}

func deduplicateMessages(
	ctx context.Context, message payment, pay func(context.Context, payment) (idempotency.Reply, error),
) (idempotency.Reply, error) {
	guard, err := idempotency.New(idempotency.Config{Records: idempotency.Memory()})
	if err != nil {
		return idempotency.Reply{}, err
	}
	request := idempotency.Request{ID: message.ID, Fingerprint: idempotency.Fingerprint(message.Body)}
	reply, err := guard.Do(ctx, request, func(ctx context.Context) (idempotency.Reply, error) {
		return pay(ctx, message)
	})
	return reply, err
}

func deduplicateInSQL(
	ctx context.Context, db *sql.DB, retry func(error) bool, request idempotency.Request, receipt []byte,
) (idempotency.Reply, error) {
	transactions := idempotency.SQLTransactions{DB: db, Dialect: idempotency.PostgreSQL, Retry: retry}
	guard, err := idempotency.New(idempotency.Config{Transact: transactions.Transact})
	if err != nil {
		return idempotency.Reply{}, err
	}
	reply, err := guard.Do(ctx, request, func(ctx context.Context) (idempotency.Reply, error) {
		_, err := idempotency.TxFrom(ctx).ExecContext(ctx, "INSERT INTO payments …")
		return idempotency.Reply{Body: receipt}, err
	})
	return reply, err
}

func deduplicateInStore(ctx context.Context, db store.Store) (*idempotency.Guard, error) {
	elector, err := elect.Start(ctx, elect.Config{Store: db})
	if err != nil {
		return nil, err
	}
	guard, err := idempotency.New(idempotency.Config{Records: idempotencystore.New(elector, db)})
	return guard, err
}

func deduplicateHTTP(guard *idempotency.Guard, tenantOf func(*http.Request) string, orders http.Handler) error {
	once, err := idempotencyhttp.New(idempotencyhttp.Options{
		Guard:    guard,
		Required: true,
		Caller:   func(r *http.Request) string { return tenantOf(r) }, // no caller gets the reply of another
		Docs:     "https://example.com/docs/idempotency",
	})
	if err != nil {
		return err
	}
	http.Handle("/orders", once(orders))
	return nil
}

func measureMutexes(ctx context.Context, uri string) (*mutex.Locks, error) {
	metrics := mutexmetrics.New()
	prometheus.MustRegister(metrics)
	locks, err := mutex.Open(ctx, uri, metrics.Observe)
	return locks, err
}

func shortenLease(ctx context.Context, uri string) (*mutex.Locks, error) {
	locks, err := mutex.Open(ctx, uri, func(c *elect.Config) { c.LeaseDuration = 5 * time.Second })
	return locks, err
}

type owned struct {
	mu     sync.RWMutex
	leases map[string]shard.Lease
}

// work is what shard.Run calls for each key.
func (o *owned) work(ctx context.Context, own shard.Lease) error {
	o.set(own.Key(), &own)
	defer o.set(own.Key(), nil) // waits for the requests under way
	<-ctx.Done()
	return nil
}

func (o *owned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	own, held := o.leases[r.Header.Get("Shardctl-Key")]
	if !held || !own.Valid() {
		w.WriteHeader(http.StatusMisdirectedRequest)
		return
	}
	answer(w, r, own.Token()) // what it writes to has to refuse smaller tokens
}

func (o *owned) set(key string, own *shard.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if own == nil {
		delete(o.leases, key)
		return
	}
	o.leases[key] = *own
}

func answer(w http.ResponseWriter, _ *http.Request, token int64) { _, _ = fmt.Fprintln(w, token) }

func routeRequests(ctx context.Context) error {
	c, err := client.New("http://shardctl:8080")
	if err != nil {
		return err
	}
	router := c.Router("topics")
	go func() { _ = router.Run(ctx) }() // until ctx ends
	topics := &http.Client{Transport: router.Transport(client.RouteOptions{})}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://topics/position", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Shardctl-Key", "topics/topic-007")
	resp, err := topics.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func saveOrder(ctx context.Context, message shardctl.Message, run tasks.Run) error {
	if !run.Lease.Valid() {
		return elect.ErrLeaseLost
	}
	return save(ctx, message.ID, message.Body, run.Token)
}

func save(context.Context, string, []byte, int64) error { return nil }

func writeReport(context.Context, tasks.Run) error { return nil }

func ownProgram() {
	shardctl.Main(shardctl.Functions{
		Tasks:    map[string]tasks.Callback{"report": writeReport},
		Messages: map[string]shardctl.Handler{"orders": saveOrder},
	})
}
