package kafka

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
)

var noEnv = discover.Env{Lookup: func(string) (string, bool) { return "", false }}

// listed is what a lister finds, each as NAME or NAME:PARTITION.
func listed(t *testing.T, l Lister, env discover.Env) []string {
	t.Helper()
	found, err := l.List(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	if found, err = discover.Check(found); err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(found))
	for i, f := range found {
		if names[i] = f.Name; f.Partition != "" {
			names[i] += ":" + f.Partition
		}
	}
	return names
}

// expectListed makes topics and lists them in each way.
func expectListed(t *testing.T, b *bench, prefix string) {
	t.Helper()
	for topic, partitions := range map[string]int32{"orders-eu": 2, "orders-us": 1, "pay": 1, "__hidden": 1} {
		name := prefix + topic
		if topic == "__hidden" {
			name = "__" + prefix
		}
		b.create(name, partitions)
	}
	l := Lister{Brokers: []string{"$(BROKER)"}, Topics: []string{prefix + "orders-*"}}
	env := discover.Env{Lookup: func(string) (string, bool) { return b.addr, true }}
	for want, l := range map[string]Lister{
		"orders-eu orders-us":                 l,
		"orders-eu orders-us pay":             {Brokers: l.Brokers, Topics: []string{"/^_*" + prefix + "/"}},
		"orders-us pay":                       {Brokers: l.Brokers, Topics: []string{prefix + "pay", prefix + "orders-u?"}},
		"orders-eu:0 orders-eu:1 orders-us:0": {Brokers: l.Brokers, Topics: l.Topics, Per: PerPartition},
		"":                                    {Brokers: l.Brokers, Topics: []string{prefix + "nothing"}},
	} {
		if got := strings.ReplaceAll(strings.Join(listed(t, l, env), " "), prefix, ""); got != want {
			t.Errorf("%v per %s: %s, want %s", l.Topics, l.Per, got, want)
		}
	}
	b.create(prefix+"orders-asia", 1)
	if _, err := b.admin.CreatePartitions(b.ctx(), 1, prefix+"orders-us"); err != nil {
		t.Fatal(err)
	}
	l.Per = PerPartition
	subscribetest.Eventually(t, "what was added", func() bool {
		got := listed(t, l, env)
		return slices.Contains(got, prefix+"orders-asia:0") && slices.Contains(got, prefix+"orders-us:1")
	})
}

func TestTopicsAreListed(t *testing.T) { expectListed(t, fake(t), "") }

// A lister that cannot ask says who did not answer and why, and never lists nothing.
func TestListersFail(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "admin", "right"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	addr := cluster.ListenAddrs()[0]
	for want, l := range map[string]Lister{
		"connection refused": {Brokers: []string{"127.0.0.1:1"}, Topics: []string{"*"}},
		"kafka.sasl":         {Brokers: []string{addr}, Topics: []string{"*"}},
		"the port": {Brokers: []string{addr}, Topics: []string{"*"}, SASL: SASL{
			"PLAIN",
			connect.Login{User: "admin", Password: "hunter2"},
		}},
		"kafka.brokers[0]": {Brokers: []string{"$(UNSET)"}, Topics: []string{"*"}},
		"kafka.topics[0]":  {Brokers: []string{addr}, Topics: []string{"$(UNSET)"}},
		"kafka.tls.caFile": {
			Brokers: []string{addr}, Topics: []string{"*"},
			TLS: TLS{TLS: connect.TLS{CAFile: "/nowhere"}, Enabled: true},
		},
		"kafka.sasl.password": {Brokers: []string{addr}, Topics: []string{"*"}, SASL: SASL{
			"PLAIN",
			connect.Login{User: "a", PasswordFile: "/nowhere"},
		}},
		"brokers 127.0.0.1:1:": {Brokers: []string{"127.0.0.1:1"}, Topics: []string{"*"}},
	} {
		found, err := l.List(t.Context(), noEnv)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, %v; want %s", found, err, want)
		}
	}
	l := Lister{Brokers: []string{addr}, Topics: []string{"*"}, SASL: SASL{
		"PLAIN",
		connect.Login{User: "admin", Password: "right"},
	}}
	if found, err := l.List(t.Context(), noEnv); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("it no longer looks"))
	if _, err := l.List(gone, noEnv); err == nil {
		t.Error("listed although its context has ended")
	}
}

// More topics or partitions than a list may have are an error, and not the first so many.
func TestTooManyAreFound(t *testing.T) {
	partitions := kadm.PartitionDetails{}
	for i := range int32(discover.MaxFound + 1) {
		partitions[i] = kadm.PartitionDetail{Partition: i}
	}
	topics := kadm.TopicDetails{"orders": {Topic: "orders", Partitions: partitions}}
	patterns, err := discover.ParsePatterns([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := (Lister{Per: PerPartition}).found(topics, patterns); err == nil {
		t.Errorf("%d partitions", len(found))
	}
	if found, err := (Lister{}).found(topics, patterns); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
	for i := range discover.MaxFound {
		name := strconv.Itoa(i)
		topics[name] = kadm.TopicDetail{Topic: name}
	}
	if found, err := (Lister{}).found(topics, patterns); err == nil {
		t.Errorf("%d topics", len(found))
	}
}

func TestListersAreValidated(t *testing.T) {
	good := Lister{Brokers: []string{"a:9092,b:9092"}, Topics: []string{"orders-*"}, Per: PerPartition}
	if wrong := good.Validate(); len(wrong) > 0 {
		t.Error(wrong)
	}
	for field, l := range map[string]Lister{
		"brokers":  {Topics: good.Topics},
		"topics":   {Brokers: good.Brokers},
		"topics.1": {Brokers: good.Brokers, Topics: []string{"a", "/(/"}},
		"per":      {Brokers: good.Brokers, Topics: good.Topics, Per: "group"},
		"sasl.mechanism": {Brokers: good.Brokers, Topics: good.Topics, SASL: SASL{
			"GSSAPI",
			connect.Login{User: "a", Password: "b"},
		}},
		"tls.keyFile": {Brokers: good.Brokers, Topics: good.Topics, TLS: TLS{TLS: connect.TLS{CertFile: "a"}}},
	} {
		wrong := l.Validate()
		if len(wrong) == 0 || strings.Join(wrong[0].Path, ".") != field {
			t.Errorf("%s: %v", field, wrong)
		}
	}
	secret := Lister{Brokers: good.Brokers, Topics: good.Topics, SASL: SASL{"PLAIN", connect.Login{
		User:     "a",
		Password: "hunter2",
	}}}
	fields := secret.Print().(decode.Fields)
	if text := fields[3].Value.(decode.Fields)[2].Value; text != decode.Masked {
		t.Errorf("printed %v", fields)
	}
}
