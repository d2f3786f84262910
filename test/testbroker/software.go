//go:build unix

package testbroker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/test/testprocess"
)

// rabbitmqScript is the server's own script. The one in PATH is a wrapper, which changes to another user and directory.
const rabbitmqScript = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// Ports of a RabbitMQ node.
const (
	rabbitmqClients = iota
	rabbitmqErlang  // to other nodes, of which there are none
	rabbitmqNames   // Erlang's name server
	rabbitmqPorts
)

// rabbitmq is a node with an Erlang name server of its own. Without one, the node would start one that outlives it.
type rabbitmq struct{ server, epmd string }

func (r *rabbitmq) Ports() int { return rabbitmqPorts }

func (r *rabbitmq) Provide(context.Context) (err error) {
	const debian = "rabbitmq-server"
	r.server, err = testprocess.Program(string(KindRabbitMQ), debian, rabbitmqScript)
	if err != nil {
		return err
	}
	r.epmd, err = testprocess.Program(string(KindRabbitMQ), debian, "epmd")
	return err
}

func (r *rabbitmq) Prepare(_ context.Context, s *testprocess.Site) error {
	err := errors.Join(os.MkdirAll(s.Path("log"), 0o700), os.MkdirAll(s.Path("gen"), 0o700))
	if err == nil {
		err = os.WriteFile(s.Path("enabled_plugins"), []byte(rabbitmqPlugins(s.Extra())), 0o600)
	}
	if err != nil {
		return fmt.Errorf("directory of the broker: %w", err)
	}
	return s.Write("rabbitmq.conf",
		"listeners.tcp.1 = "+s.Addr(rabbitmqClients),
		"vm_memory_high_watermark.absolute = 1GB",
		"disk_free_limit.absolute = 100MB",
		"log.file = false",
		"log.console = true",
		"log.console.level = warning",
	)
}

// rabbitmqPlugins are those that further lines of the configuration are of.
func rabbitmqPlugins(config []string) string {
	if slices.ContainsFunc(config, func(line string) bool { return strings.HasPrefix(line, "management.") }) {
		return "[rabbitmq_management].\n"
	}
	return "[].\n"
}

func (r *rabbitmq) Commands(s *testprocess.Site) []testprocess.Command {
	port := func(i int) string { return strconv.Itoa(s.Ports[i]) }
	env := []string{
		"HOME=" + s.Dir, // the Erlang cookie is made here
		"RABBITMQ_NODENAME=test" + port(rabbitmqClients) + "@localhost",
		"RABBITMQ_CONFIG_FILE=" + s.Path("rabbitmq.conf"),
		"RABBITMQ_MNESIA_BASE=" + s.Path("mnesia"),
		"RABBITMQ_LOG_BASE=" + s.Path("log"),
		"RABBITMQ_PID_FILE=" + s.Path("erlang.pid"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + s.Path("enabled_plugins"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + s.Path("gen"),
		"RABBITMQ_CONF_ENV_FILE=" + s.Path("none"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + s.Path("advanced.config"),
		"RABBITMQ_DIST_PORT=" + port(rabbitmqErlang),
		"ERL_EPMD_PORT=" + port(rabbitmqNames),
		"ERL_EPMD_ADDRESS=" + testprocess.Loopback,
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		// The script then becomes the node, instead of waiting for it: signals reach it, and it dies with the test.
		"RUNNING_UNDER_SYSTEMD=1",
		"LC_ALL=C.UTF-8",
	}
	return []testprocess.Command{
		{Args: []string{r.epmd, "-address", testprocess.Loopback, "-port", port(rabbitmqNames)}},
		{Args: []string{r.server}, Env: env},
	}
}

// Ready sends the protocol's header, which is answered by a first frame on channel 0.
func (r *rabbitmq) Ready(ctx context.Context, s *testprocess.Site) error {
	reply := make([]byte, 3)
	if err := testprocess.Ask(ctx, s.Addr(rabbitmqClients), []byte("AMQP\x00\x00\x09\x01"), reply); err != nil {
		return err
	}
	if reply[0] != 1 {
		return fmt.Errorf("no AMQP 0-9-1: %q", reply)
	}
	return nil
}

// mosquitto is an MQTT broker.
type mosquitto struct{ server string }

func (m *mosquitto) Ports() int { return 1 }

func (m *mosquitto) Provide(context.Context) (err error) {
	m.server, err = testprocess.Program(string(KindMosquitto), "mosquitto", "mosquitto")
	return err
}

func (m *mosquitto) Prepare(_ context.Context, s *testprocess.Site) error {
	lines := []string{
		"listener " + strconv.Itoa(s.Ports[0]) + " " + testprocess.Loopback,
		"allow_anonymous true",
		"persistence true",
		"persistence_location " + s.Dir + "/",
		"autosave_interval 1",
		// By default it drops what is more than a thousand messages for one client that is slow or away.
		"max_queued_messages 1000000",
		"max_inflight_messages 1000",
		"log_dest stdout",
	}
	if os.Geteuid() == 0 {
		lines = append(lines, "user root") // or it becomes a user who cannot write here
	}
	return s.Write("mosquitto.conf", lines...)
}

func (m *mosquitto) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{m.server, "-c", s.Path("mosquitto.conf")}}}
}

// Ready connects by MQTT 3.1.1 with a session that is not kept. A refusal is an answer too: it may ask for a password.
func (m *mosquitto) Ready(ctx context.Context, s *testprocess.Site) error {
	connect := []byte("\x10\x10\x00\x04MQTT\x04\x02\x00\x05\x00\x04ping")
	reply := make([]byte, 4)
	if err := testprocess.Ask(ctx, s.Addr(0), connect, reply); err != nil {
		return err
	}
	if reply[0] != 0x20 {
		return fmt.Errorf("no MQTT: %q", reply)
	}
	return nil
}

// nats is a NATS server with JetStream.
type nats struct{ server string }

func (n *nats) Ports() int { return 1 }

func (n *nats) Provide(ctx context.Context) (err error) {
	n.server, err = testprocess.Module{
		Kind: string(KindNATS), Parent: "github.com/shardctl/shardctl/test/testbroker", Dir: "natsserver",
		Package: "github.com/nats-io/nats-server/v2",
	}.Program(ctx)
	return err
}

func (n *nats) Prepare(_ context.Context, s *testprocess.Site) error {
	return s.Write("nats.conf",
		`listen: "`+s.Addr(0)+`"`,
		`jetstream: {store_dir: "`+s.Path("jetstream")+`", max_file_store: 10GB}`,
	)
}

func (n *nats) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{n.server, "-c", s.Path("nats.conf")}}}
}

// Ready waits for the line that the server greets with: streams have been recovered by then.
func (n *nats) Ready(ctx context.Context, s *testprocess.Site) error {
	line, err := testprocess.AskLine(ctx, s.Addr(0), "")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(line, "INFO ") {
		return fmt.Errorf("no NATS: %q", line)
	}
	return nil
}
