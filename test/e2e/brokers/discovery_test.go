//go:build linux

package brokers_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testbroker"
)

const lookEvery = 2 * time.Second

// arrivals are the messages that were delivered, by their bodies: when each came first.
type arrivals struct {
	*httptest.Server
	mu    sync.Mutex
	first map[string]time.Time
}

func newArrivals() *arrivals {
	a := &arrivals{first: map[string]time.Time{}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 1<<10)
		n, _ := r.Body.Read(body)
		a.mu.Lock()
		defer a.mu.Unlock()
		if _, known := a.first[string(body[:n])]; !known {
			a.first[string(body[:n])] = time.Now()
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	DeferCleanup(a.Close)
	return a
}

// missing are those of some messages that have not come.
func (a *arrivals) missing(bodies ...string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(bodies), func(b string) bool { _, came := a.first[b]; return came })
}

// last is when the last of some messages came first.
func (a *arrivals) last(bodies ...string) (last time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, body := range bodies {
		if at := a.first[body]; at.After(last) {
			last = at
		}
	}
	return last
}

// topics makes topics with one message each, whose body is the topic and the word.
type topics struct {
	client *kgo.Client
	admin  *kadm.Client
}

func (t topics) create(ctx context.Context, partitions int32, names ...string) {
	GinkgoHelper()
	made, err := t.admin.CreateTopics(ctx, partitions, 1, nil, names...)
	Expect(err).NotTo(HaveOccurred())
	Expect(made.Error()).NotTo(HaveOccurred())
}

func (t topics) say(ctx context.Context, word string, names ...string) (bodies []string) {
	GinkgoHelper()
	var records []*kgo.Record
	for _, name := range names {
		bodies = append(bodies, name+" "+word)
		records = append(records, &kgo.Record{Topic: name, Value: []byte(name + " " + word)})
	}
	Expect(t.client.ProduceSync(ctx, records...).FirstErr()).To(Succeed())
	return bodies
}

var _ = Describe("Topics that are discovered", Label("kafka", "short", "discovery"), func() {
	It("are consumed within the interval, stay while the broker is down, and end after the grace",
		func(ctx SpecContext) {
			server, at := openBroker(ctx, testbroker.KindKafka), newArrivals()
			client, err := kgo.NewClient(
				kgo.SeedBrokers(server.Addr()), kgo.MetadataMinAge(100*time.Millisecond), kgo.UnknownTopicRetries(-1),
			)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(client.Close)
			t := topics{client, kadm.NewClient(client)}
			old := names("orders", 0, 5)
			t.create(ctx, 1, append(old, "other")...)
			t.create(ctx, 2, "parts")

			c := NewCluster("kafka-discovery", harness.Options{StoreURI: SQLiteURI()})
			for i := range 3 {
				_, err := c.StartWith(ctx, fmt.Sprintf("d%d", i+1),
					discovering(c, fmt.Sprintf("d%d", i+1), server.Addr(), at.URL))
				Expect(err).NotTo(HaveOccurred())
			}
			replica := c.Live()[0]
			keys := func() ([]string, error) {
				tasks, err := replica.Client.Tasks(ctx)
				var keys []string
				for _, t := range tasks {
					keys = append(keys, t.Key)
				}
				return keys, err
			}
			first := t.say(ctx, "first", old...)
			Eventually(func() []string { return at.missing(first...) }).Should(BeEmpty())
			Eventually(keys).Should(And(HaveLen(7), ContainElements("parts/parts-0", "parts/parts-1")))

			By("creating 20 topics, and a partition")
			fresh := names("orders", 5, 25)
			t.create(ctx, 1, fresh...)
			_, err = t.admin.CreatePartitions(ctx, 1, "parts")
			Expect(err).NotTo(HaveOccurred())
			created := time.Now()
			second := t.say(ctx, "second", fresh...)
			Eventually(func() []string { return at.missing(second...) }).Should(BeEmpty())
			took := at.last(second...).Sub(created)
			Figure("kafka", "20 topics created at once are consumed after %s, looking every %s",
				took.Round(time.Millisecond),
				lookEvery)
			since := history.Now().Add(-time.Since(created))
			ExpectWithin(c, lookEvery+2*time.Second, since, since.Add(took), "the last of the topics")
			Eventually(keys).Should(And(HaveLen(28), ContainElement("parts/parts-2")))

			By("having the broker down for three intervals")
			server.Kill()
			down := time.Now()
			Eventually(func() ([]harness.Problem, error) {
				status, err := replica.Client.Status(ctx)
				return status.ProblemsOf("DiscoveryFailed"), err
			}).Should(ContainElement(HaveField("Message", ContainSubstring(server.Addr()))))
			Consistently(keys).WithTimeout(3*lookEvery - time.Since(down)).Should(HaveLen(28))
			Expect(server.Start(ctx)).To(Succeed())
			third := t.say(ctx, "third", slices.Concat(old, fresh)...)
			Eventually(func() []string { return at.missing(third...) }).Should(BeEmpty())
			Eventually(func() ([]harness.Problem, error) {
				status, err := replica.Client.Status(ctx)
				return status.ProblemsOf("DiscoveryFailed"), err
			}).Should(BeEmpty())
			Expect(keys()).To(HaveLen(28))

			By("deleting topics")
			_, err = t.admin.DeleteTopics(ctx, old...)
			Expect(err).NotTo(HaveOccurred())
			Eventually(keys).Should(And(HaveLen(23), Not(ContainElement("orders/orders-00"))))
			fourth := t.say(ctx, "fourth", fresh...)
			Eventually(func() []string { return at.missing(fourth...) }).Should(BeEmpty())
		}, SpecTimeout(ScenarioTimeout))
})

func names(prefix string, from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("%s-%02d", prefix, i))
	}
	return all
}

// discovering is the configuration of a replica that subscribes to the topics it finds.
func discovering(c *harness.Cluster, name, broker, receiver string) func(server, admin string) (string, error) {
	return func(server, admin string) (string, error) {
		text := fmt.Sprintf(`version: 1
cluster: brokers
instance: %s
store: {uri: %q}
lease: {duration: %s}
rebalance: {settle: %s}
shutdown: {timeout: 20s}
server: {listen: %q, advertise: %q}
admin: {listen: %q}
groups:
  - name: orders
    cap: 20
    discover:
      kafka: {brokers: [ADDR], topics: "orders-*"}
      interval: %s
      grace: 3s
    template:
      kafka: {brokers: [ADDR], topic: $(DISCOVERED_NAME), start: earliest}
      deliver: {http: {url: RECEIVER, timeout: 5s}}
  - name: parts
    discover:
      kafka: {brokers: ADDR, topics: /^part/, per: partition}
      interval: %s
    template:
      kafka: {brokers: ADDR, topic: $(DISCOVERED_NAME), partitions: [$(DISCOVERED_PARTITION)], start: earliest}
      deliver: {http: {url: RECEIVER, timeout: 5s}}
`, name, c.StoreURI, Lease, Settle, server, server, admin, lookEvery, lookEvery)
		return strings.NewReplacer("ADDR", broker, "RECEIVER", receiver).Replace(text), nil
	}
}
