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

	"github.com/shardctl/shardctl/internal/testprocess"
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
