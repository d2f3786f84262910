//go:build unix

package testbroker

import (
	"context"
	"fmt"
	"os"
	"strconv"
)

// mosquitto is an MQTT broker.
type mosquitto struct{ server string }

func (m *mosquitto) ports() int { return 1 }

func (m *mosquitto) provide(context.Context) (err error) {
	m.server, err = program(KindMosquitto, "mosquitto", "mosquitto")
	return err
}

func (m *mosquitto) prepare(_ context.Context, s *site) error {
	lines := []string{
		"listener " + strconv.Itoa(s.ports[0]) + " " + loopback,
		"allow_anonymous true",
		"persistence true",
		"persistence_location " + s.dir + "/",
		"autosave_interval 1",
		// By default it drops what is more than a thousand messages for one client that is slow or away.
		"max_queued_messages 1000000",
		"max_inflight_messages 1000",
		"log_dest stdout",
	}
	if os.Geteuid() == 0 {
		lines = append(lines, "user root") // or it becomes a user who cannot write here
	}
	return s.write("mosquitto.conf", lines...)
}

func (m *mosquitto) commands(s *site) []command {
	return []command{{args: []string{m.server, "-c", s.path("mosquitto.conf")}}}
}

// ready connects by MQTT 3.1.1 with a session that is not kept. A refusal is an answer too: it may ask for a password.
func (m *mosquitto) ready(ctx context.Context, s *site) error {
	connect := []byte("\x10\x10\x00\x04MQTT\x04\x02\x00\x05\x00\x04ping")
	reply := make([]byte, 4)
	if err := ask(ctx, s.addr(0), connect, reply); err != nil {
		return err
	}
	if reply[0] != 0x20 {
		return fmt.Errorf("no MQTT: %q", reply)
	}
	return nil
}
