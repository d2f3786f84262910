//go:build unix

package testbroker

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/shardctl/shardctl/internal/testprocess"
)

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
