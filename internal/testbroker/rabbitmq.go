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

func (r *rabbitmq) ports() int { return rabbitmqPorts }

func (r *rabbitmq) provide(context.Context) (err error) {
	const debian = "rabbitmq-server"
	r.server, err = program(KindRabbitMQ, debian, rabbitmqScript)
	if err != nil {
		return err
	}
	r.epmd, err = program(KindRabbitMQ, debian, "epmd")
	return err
}

func (r *rabbitmq) prepare(_ context.Context, s *site) error {
	err := errors.Join(os.MkdirAll(s.path("log"), 0o700), os.MkdirAll(s.path("gen"), 0o700))
	if err == nil {
		err = os.WriteFile(s.path("enabled_plugins"), []byte(rabbitmqPlugins(s.extra)), 0o600)
	}
	if err != nil {
		return fmt.Errorf("directory of the broker: %w", err)
	}
	return s.write("rabbitmq.conf",
		"listeners.tcp.1 = "+s.addr(rabbitmqClients),
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

func (r *rabbitmq) commands(s *site) []command {
	port := func(i int) string { return strconv.Itoa(s.ports[i]) }
	env := []string{
		"HOME=" + s.dir, // the Erlang cookie is made here
		"RABBITMQ_NODENAME=test" + port(rabbitmqClients) + "@localhost",
		"RABBITMQ_CONFIG_FILE=" + s.path("rabbitmq.conf"),
		"RABBITMQ_MNESIA_BASE=" + s.path("mnesia"),
		"RABBITMQ_LOG_BASE=" + s.path("log"),
		"RABBITMQ_PID_FILE=" + s.path("erlang.pid"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + s.path("enabled_plugins"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + s.path("gen"),
		"RABBITMQ_CONF_ENV_FILE=" + s.path("none"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + s.path("advanced.config"),
		"RABBITMQ_DIST_PORT=" + port(rabbitmqErlang),
		"ERL_EPMD_PORT=" + port(rabbitmqNames),
		"ERL_EPMD_ADDRESS=" + loopback,
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		// The script then becomes the node, instead of waiting for it: signals reach it, and it dies with the test.
		"RUNNING_UNDER_SYSTEMD=1",
		"LC_ALL=C.UTF-8",
	}
	return []command{
		{args: []string{r.epmd, "-address", loopback, "-port", port(rabbitmqNames)}},
		{args: []string{r.server}, env: env},
	}
}

// ready sends the protocol's header, which is answered by a first frame on channel 0.
func (r *rabbitmq) ready(ctx context.Context, s *site) error {
	reply := make([]byte, 3)
	if err := ask(ctx, s.addr(rabbitmqClients), []byte("AMQP\x00\x00\x09\x01"), reply); err != nil {
		return err
	}
	if reply[0] != 1 {
		return fmt.Errorf("no AMQP 0-9-1: %q", reply)
	}
	return nil
}
