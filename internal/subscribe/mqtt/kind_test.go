package mqtt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/subscribe/mqtt"
)

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*mqtt.Source)
		says   []string
	}{
		"good":      {func(*mqtt.Source) {}, nil},
		"nothing":   {func(s *mqtt.Source) { *s = mqtt.Source{} }, []string{"servers: is required", "topic: is required"}},
		"variables": {func(s *mqtt.Source) { s.Servers, s.Filter = []string{"$(MQTT)"}, "$(TOPIC)" }, nil},
		"several":   {func(s *mqtt.Source) { s.Servers = []string{"mqtt://a,mqtts://b:1"} }, nil},
		"no server": {
			func(s *mqtt.Source) { s.Servers = []string{"mqtt://user:secret@a"} }, []string{"servers: must be mqtt://"},
		},
		"filter": {func(s *mqtt.Source) { s.Filter = "a/#/b" }, []string{"topic: must be a topic"}},
		"plus":   {func(s *mqtt.Source) { s.Filter = "a/b+" }, []string{"topic: must be a topic"}},
		"qos":    {func(s *mqtt.Source) { s.QoS = 3 }, []string{"qos: must be 0, 1 or 2"}},
		"times": {
			func(s *mqtt.Source) { s.KeepAlive, s.SessionExpiry = time.Hour, time.Millisecond },
			[]string{"sessionExpiry: must be", "keepAlive: must be"},
		},
		"login": {
			func(s *mqtt.Source) { s.Login = connect.Login{Password: "secret", PasswordFile: "/f"} },
			[]string{"passwordFile: is set together"},
		},
		"tls": {func(s *mqtt.Source) { s.TLS.KeyFile = "/k" }, []string{"tls.certFile: is required with keyFile"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mqtt.Source{Servers: []string{"mqtt://a:1883"}, Filter: "a/+/#", QoS: 1}
			c.change(&s)
			wrong := s.Validate()
			if len(wrong) != len(c.says) {
				t.Fatalf("%v, want %q", wrong, c.says)
			}
			for i, err := range wrong {
				if !strings.HasPrefix(err.Error(), c.says[i]) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%q, want %q", err.Error(), c.says[i])
				}
			}
		})
	}
}

func TestPrintHidesPasswords(t *testing.T) {
	s := mqtt.Source{Servers: []string{"mqtt://a"}, Filter: "orders", Login: connect.Login{
		User:     "u",
		Password: "secret",
	}}
	printed := fmt.Sprint(s.Print())
	for _, part := range []string{"mqtt://a", "orders", "1h", "5s", "xxxxx"} {
		if !strings.Contains(printed, part) {
			t.Errorf("%s has no %s", printed, part)
		}
	}
	if strings.Contains(printed, "secret") {
		t.Errorf("%s shows a password", printed)
	}
}
