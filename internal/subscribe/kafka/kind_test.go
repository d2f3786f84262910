package kafka_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/kafka"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite" // the store that the configurations name
)

// load reads a configuration whose tasks have these fields kafka.
func load(t *testing.T, fields ...string) ([]kafka.Source, error) {
	t.Helper()
	text := "version: 1\nstore: {uri: \"sqlite:x.db\"}\ngroups:\n  - name: g\n    tasks:\n"
	for i, f := range fields {
		text += "      - name: t" + string(rune('a'+i)) + "-{0..1}\n        kafka: " + f +
			"\n        deliver: {http: {url: \"http://svc\"}}\n"
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) {
		value, ok := map[string]string{
			"KAFKA": "a:1,b:2", "PASSWORD": "hunter2", "WORD": "word",
			"SINCE": "latest",
		}[name]
		return value, ok
	}
	settings, err := config.Load([]string{file}, config.Options{Env: env, Kinds: kinds.All()})
	if err != nil {
		return nil, err
	}
	var sources []kafka.Source
	for _, task := range settings.Groups[0].Tasks {
		sources = append(sources, task.Runner.(subscribe.Runner).Source.(kafka.Source))
	}
	return sources, nil
}

func TestParse(t *testing.T) {
	got, err := load(t,
		`{brokers: "$(KAFKA)", topic: orders}`,
		`{brokers: [a:1, "$(KAFKA)"], topic: $(SHARDCTL_TASK), partitions: [$(SHARDCTL_INDEX), 7], group: g,
          start: 2026-01-31T12:00:00Z, missing: earliest, offsets: store, isolation: read_uncommitted, maxBytes: 5,
          sasl: {mechanism: SCRAM-SHA-512, user: u, password: $(PASSWORD)}, tls: {caFile: ca.pem}}`,
		`{brokers: a:1, topic: orders, start: $(SINCE), tls: {enabled: false, caFile: ca.pem}}`,
	)
	if err != nil {
		t.Fatal(err)
	}
	plain := kafka.Source{
		Brokers: []string{"$(KAFKA)"}, TopicName: "orders", Start: subscribe.Earliest, Missing: subscribe.Stop,
		Offsets: subscribe.Broker, Isolation: kafka.ReadCommitted, MaxBytes: kafka.DefaultMaxBytes,
	}
	if !reflect.DeepEqual(got[0], plain) {
		t.Errorf("got  %+v\nwant %+v", got[0], plain)
	}
	full := kafka.Source{
		Brokers: []string{"a:1", "$(KAFKA)"}, TopicName: "$(SHARDCTL_TASK)", Partitions: []int32{1, 7}, Group: "g",
		Start: "2026-01-31T12:00:00Z", Missing: subscribe.Earliest, Offsets: subscribe.Store,
		Isolation: kafka.ReadUncommitted,
		MaxBytes:  5, SASL: kafka.SASL{
			Login:     connect.Login{User: "u", Password: "$(PASSWORD)"},
			Mechanism: "SCRAM-SHA-512",
		},
		TLS: kafka.TLS{TLS: connect.TLS{CAFile: "ca.pem"}, Enabled: true},
	}
	if !reflect.DeepEqual(got[3], full) {
		t.Errorf("got  %+v\nwant %+v", got[3], full)
	}
	if got[4].Start != subscribe.Latest || got[4].TLS.Enabled || got[4].Brokers[0] != "a:1" {
		t.Errorf("got %+v", got[4])
	}
}

func TestParseSaysAllThatIsWrong(t *testing.T) {
	_, err := load(t,
		`{brokers: "http://a", topic: orders, start: yesterday, missing: skip, maxBytes: 0, partitions: [1, one]}`,
		`{topic: a/b, sasl: {mechanism: PLAIN, user: u}, tls: {certFile: c.pem}, broker: x}`,
		`{brokers: {a: b}, topic: $(NOT_SET)}`,
	)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`tasks[0].kafka.brokers: must be HOST:PORT of a broker, without a scheme, or several with commas between`,
		`tasks[0].kafka.start: is "yesterday", must be earliest, latest or a time such as 2026-01-31T12:00:00Z`,
		`tasks[0].kafka.missing: is "skip", must be earliest, latest or stop`,
		`tasks[0].kafka.maxBytes: is "0", must be a whole number of bytes from 1 to 268435456`,
		`tasks[0].kafka.partitions[1]: is "one", must be a whole number from 0 to 2147483647`,
		`tasks[1].kafka.brokers: is required: HOST:PORT of one broker or more`,
		`tasks[1].kafka.topic: is "a/b", must be at most 249 letters, digits, '.', '_' and '-'`,
		`tasks[1].kafka.sasl.password: is required, or passwordFile`,
		`tasks[1].kafka.tls.keyFile: is required with certFile`,
		`tasks[1].kafka.broker: is not a field, did you mean brokers?`,
		`tasks[2].kafka.brokers: is a mapping, must be a list of HOST:PORT, or HOST:PORT with commas between`,
		`tasks[2].kafka.topic: $(NOT_SET) is not set`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("does not say %s", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}
