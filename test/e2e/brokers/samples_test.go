//go:build linux

package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// What the samples have: tasks orders-001 to orders-100 of the group orders, and a cap of 30 for each replica.
const (
	sampleGroup    = "orders"
	sampleTasks    = 100
	sampleReplicas = 4
	sampleMessages = 3 // of each topic
)

// sample is config/topics-NAME.yaml, as its head says to run it.
type sample struct {
	variable, value string // of the environment; ADDR is the broker's address
	receiver        string // of receivers
	subject         string // what follows the task's name in the topic of its messages
	connect         func(ctx context.Context, addr string, topics []string) (publisher, error)
}

// samples are those of kinds, by their name.
var samples = map[string]sample{
	"kafka": {variable: "KAFKA", value: "ADDR", receiver: "Go"},
	"nats":  {variable: "NATS", value: "ADDR", receiver: "Python", subject: ".eu", connect: connectOrders},
	"redis": {variable: "REDIS", value: "redis://ADDR", receiver: "Go"},
	"amqp":  {variable: "AMQP_URL", value: "amqp://guest:guest@ADDR/", receiver: "Python"},
	"mqtt":  {variable: "MQTT", value: "mqtt://ADDR", receiver: "Go"},
}

// connectOrders makes the one stream of the sample of NATS.
func connectOrders(ctx context.Context, addr string, topics []string) (publisher, error) {
	p, err := connectNATS(ctx, addr, nil, 0)
	if err != nil {
		return nil, err
	}
	_, err = p.(natsPublisher).js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: topics})
	return p, err
}

var _ = Describe("The sample configuration", func() {
	for _, k := range kinds {
		labels := Label(k.name, "nightly", "samples")
		if k.name == "redis" || k.name == "nats" {
			labels = Label(k.name, "short", "samples")
		}
		It(fmt.Sprintf("topics-%s.yaml delivers a hundred topics to the receiver in %s", k.name,
			samples[k.name].receiver),
			labels, Serial, func(ctx SpecContext) { playSample(ctx, k, samples[k.name]) }, SpecTimeout(ScenarioTimeout))
	}
})

func playSample(ctx context.Context, k kind, s sample) {
	GinkgoHelper()
	Expect(samples).To(HaveKey(k.name))
	receiver := startReceiver(ctx, s.receiver)
	server := openBroker(ctx, k.broker)
	var topics []string
	for i := range sampleTasks {
		topics = append(topics, fmt.Sprintf("orders-%03d%s", i+1, s.subject))
	}
	connect := s.connect
	if connect == nil {
		connect = func(ctx context.Context, addr string, topics []string) (publisher, error) {
			return k.connect(ctx, addr, topics, 1)
		}
	}
	to, err := connect(ctx, server.Addr(), topics)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(to.Close)

	GinkgoT().Setenv(s.variable, strings.ReplaceAll(s.value, "ADDR", server.Addr()))
	GinkgoT().Setenv("RECEIVER", receiver.url)
	GinkgoT().Setenv("SHARDCTL_STORE_URI", SQLiteURI())
	c := startSample(ctx, k.name)

	By("delivering every message once, in order")
	for n := range sampleMessages {
		for _, topic := range topics {
			Expect(to.Publish(ctx, lane{topic: topic}, fmt.Appendf(nil, "%s %d", topic, n+1))).To(Succeed())
		}
	}
	Eventually(func() int { all, _ := receiver.lines(); return len(all) }).WithContext(ctx).WithTimeout(patience).
		Should(BeNumerically(">=", sampleTasks*sampleMessages))
	for _, topic := range topics {
		Expect(receiver.bodies(topic)).To(Equal([]string{topic + " 1", topic + " 2", topic + " 3"}))
	}

	By("rejecting an old token")
	publish := func(body string) error { return to.Publish(ctx, lane{topic: topics[0]}, []byte(body)) }
	playOldToken(ctx, c, receiver, publish, topics[0])
	Expect(c.Scale(ctx, 0)).To(Succeed())
	all, other := receiver.lines()
	Expect(all).To(HaveLen(sampleTasks*sampleMessages+2), "what was delivered in all, and what this test sent itself")
	Expect(other).To(BeEmpty())
}

// startSample starts replicas with the sample as it stands, and waits until all tasks run. Their names and listeners
// are in a second file, as are times that suit a test.
func startSample(ctx context.Context, name string) *harness.Cluster {
	GinkgoHelper()
	path, err := filepath.Abs(filepath.Join("../../../config", "topics-"+name+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	c := NewCluster("sample-"+name, harness.Options{})
	for i := range sampleReplicas {
		replica := fmt.Sprintf("r%d", i+1)
		_, err := c.StartWith(ctx, replica, func(server, admin string) (string, error) {
			return fmt.Sprintf("version: 1\ninstance: %s\nserver: {listen: %q}\nadmin: {listen: %q}\n"+
				"lease: {duration: %s}\nrebalance: {settle: %s}\n", replica, server, admin, Lease, Settle), nil
		}, "--config", path)
		Expect(err).NotTo(HaveOccurred())
	}
	Eventually(func() (int, error) {
		status, err := c.Live()[0].Client.Status(ctx)
		return status.Group(sampleGroup).Running, err
	}).WithContext(ctx).WithTimeout(patience).Should(Equal(sampleTasks))
	return c
}

// playOldToken starts the first task again, which gives it a larger token, and then sends what an owner of before
// would.
func playOldToken(
	ctx context.Context, c *harness.Cluster, receiver *program, publish func(body string) error, topic string,
) {
	GinkgoHelper()
	const key = sampleGroup + "/orders-001"
	replica := c.Live()[0]
	old := taskOf(ctx, replica, key).FencingToken
	result, err := harness.Command(ctx, Bins.Shardctl, "restart", key, "--server", replica.Client.AdminURL())
	Expect(err).NotTo(HaveOccurred())
	Expect(result.Code).To(BeZero(), result.Stderr)
	Eventually(func() harness.Task { return taskOf(ctx, replica, key) }).WithContext(ctx).WithTimeout(patience).
		Should(And(HaveField("State", "running"), HaveField("FencingToken", BeNumerically(">", old))))
	now := taskOf(ctx, replica, key).FencingToken
	newest := topic + " 4"
	Expect(publish(newest)).To(Succeed())
	Eventually(func() []string { return receiver.bodies(topic) }).WithContext(ctx).WithTimeout(patience).
		Should(ContainElement(newest))
	all, _ := receiver.lines()
	Expect(all[len(all)-1].token).To(Equal(now))

	Expect(receiver.send(ctx, key, old, topic+" old")).To(Equal(409))
	Expect(receiver.send(ctx, key, now, topic+" new")).To(Equal(204))
	Eventually(func() []string { return receiver.bodies(topic) }).WithContext(ctx).WithTimeout(patience).
		Should(Equal([]string{topic + " 1", topic + " 2", topic + " 3", newest, topic + " new"}))
}

// taskOf is what a replica says of a task.
func taskOf(ctx context.Context, replica *harness.Replica, key string) harness.Task {
	GinkgoHelper()
	var found harness.Task
	Eventually(func() error {
		all, err := replica.Client.Tasks(ctx)
		for _, found = range all {
			if found.Key == key {
				return err
			}
		}
		return errors.Join(err, fmt.Errorf("there is no task %s", key))
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
	return found
}
