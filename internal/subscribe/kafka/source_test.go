package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/testprocess"
)

const addressMust = "must be HOST:PORT of a broker, without a scheme, or several with commas between"

// with is a valid source with a change.
func with(change func(s *Source)) Source {
	s := Source{Brokers: []string{"127.0.0.1:9092"}, TopicName: "orders"}
	if change != nil {
		change(&s)
	}
	return s
}

func TestValidate(t *testing.T) {
	for want, s := range map[string]Source{
		"": with(
			nil,
		),
		"brokers: is required: HOST:PORT of one broker or more": with(
			func(s *Source) { s.Brokers = nil },
		),
		"brokers[1]: " + addressMust: with(
			func(s *Source) { s.Brokers = append(s.Brokers, "kafka://b:9092") },
		),
		"brokers: " + addressMust: with(
			func(s *Source) { s.Brokers[0] = "a:9092,b" },
		),
		"topic: is required": with(
			func(s *Source) { s.TopicName = "" },
		),
		`topic: must be at most 249 letters, digits, '.', '_' and '-'`: with(
			func(s *Source) { s.TopicName = "a b" },
		),
		"partitions[2]: is 3, which stands there twice": with(
			func(s *Source) { s.Partitions = []int32{3, 1, 3} },
		),
		"start: must be earliest, latest or a time such as 2026-01-31T12:00:00Z": with(
			func(s *Source) { s.Start = "2026-01-31" },
		),
		"missing: must be earliest, latest or stop": with(
			func(s *Source) { s.Missing = "ignore" },
		),
		"offsets: must be broker or store": with(
			func(s *Source) { s.Offsets = "memory" },
		),
		"isolation: must be read_committed or read_uncommitted": with(
			func(s *Source) { s.Isolation = "none" },
		),
		"maxBytes: must be a whole number of bytes from 1 to 268435456": with(
			func(s *Source) { s.MaxBytes = 1 << 29 },
		),
		"sasl.user: is required\nsasl.password: is required, or passwordFile": with(
			func(s *Source) { s.SASL.Mechanism = "PLAIN" },
		),
		"sasl.mechanism: must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512": with(
			func(s *Source) { s.SASL = SASL{"GSSAPI", connect.Login{User: "u", Password: "p"}} },
		),
		"sasl.passwordFile: is set together with password: use one of them": with(
			func(s *Source) { s.SASL = SASL{"PLAIN", connect.Login{User: "u", Password: "p", PasswordFile: "f"}} },
		),
		"tls.keyFile: is required with certFile": with(
			func(s *Source) { s.TLS.CertFile = "c.pem" },
		),
	} {
		var got []string
		for _, e := range s.Validate() {
			field := ""
			for _, part := range e.Path {
				switch {
				case field == "":
					field = part
				case strings.Trim(part, "0123456789") == "":
					field += "[" + part + "]"
				default:
					field += "." + part
				}
			}
			says := e.Message
			if says == "" {
				says = "must be " + e.Must
			}
			got = append(got, field+": "+says)
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("want %s\ngot  %s", want, strings.Join(got, "\n"))
		}
	}
	variables := with(func(s *Source) { s.Brokers, s.TopicName = []string{"$(KAFKA)"}, "$(SHARDCTL_TASK)" })
	if wrong := variables.Validate(); len(wrong) > 0 {
		t.Errorf("variables are refused: %v", wrong)
	}
}

func TestPrintHidesThePassword(t *testing.T) {
	for password, shown := range map[string]string{"secret": "xxxxx", "$(KAFKA_PASSWORD)": "$(KAFKA_PASSWORD)"} {
		text := fmt.Sprint(with(func(s *Source) {
			s.SASL = SASL{"PLAIN", connect.Login{
				User:     "u",
				Password: password,
			}}
		}).Print())
		if strings.Contains(text, "secret") || !strings.Contains(text, shown) {
			t.Errorf("%s is printed as %s", password, text)
		}
	}
}

// session is one whose variables are vars.
func session(vars map[string]string) subscribe.Session {
	return subscribe.Session{
		Identity: tasks.Identity{Group: "g", Name: "n"}, Token: 7, InFlight: 1,
		Expand: func(field, text string) (string, error) {
			for name, value := range vars {
				text = strings.ReplaceAll(text, "$("+name+")", value)
			}
			if strings.Contains(text, "$(") {
				return "", errors.New(field + ": a variable is not set")
			}
			return text, nil
		},
	}
}

func TestSettings(t *testing.T) {
	s := with(func(s *Source) { s.Brokers, s.TopicName = []string{"$(KAFKA)", "c:3"}, "$(TASK)" })
	set, err := s.settings(session(map[string]string{"KAFKA": "a:1, b:2", "TASK": "orders-eu"}))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(set.brokers, []string{"a:1", "b:2", "c:3"}) || set.topic != "orders-eu" ||
		set.group != "shardctl.g.n" || set.missing != subscribe.Stop || set.maxBytes != DefaultMaxBytes ||
		set.name() != "broker a:1,b:2,c:3, topic orders-eu" {
		t.Errorf("got %+v", set)
	}
}

func TestSettingsSayAllThatIsWrong(t *testing.T) {
	s := Source{
		Brokers: []string{"$(KAFKA)"}, TopicName: "$(TOPIC)", SASL: SASL{
			"PLAIN",
			connect.Login{User: "$(USER)", PasswordFile: "/does/not/exist"},
		},
		TLS: TLS{TLS: connect.TLS{CAFile: "/not/there"}, Enabled: true},
	}
	_, err := s.settings(session(map[string]string{"TOPIC": "t"}))
	for _, want := range []string{
		"kafka.brokers[0]", "kafka.sasl.user", "kafka.sasl.passwordFile",
		"kafka.tls.caFile",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("does not name %s: %v", want, err)
		}
	}
	const hidden = "not to be quoted"
	s = Source{Brokers: []string{"$(KAFKA)"}, TopicName: "$(TOPIC)"}
	_, err = s.settings(session(map[string]string{"TOPIC": hidden, "KAFKA": hidden}))
	if err == nil || strings.Contains(err.Error(), hidden) || !strings.Contains(err.Error(), "kafka.topic") ||
		!strings.Contains(err.Error(), "kafka.brokers") {
		t.Errorf("got %v", err)
	}
}

// A client connects again by itself. Each connection has the password and the certificates that the files hold then.
func TestFilesAreReadForEachConnection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	put := func(to, from string) {
		t.Helper()
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := (SASL{name, connect.Login{User: "u", PasswordFile: file}}).mechanism()
		if err != nil || m.Name() != name {
			t.Fatalf("%s: got %v, %v", name, m, err)
		}
		if err := os.WriteFile(file, []byte("renewed\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, first, err := m.Authenticate(t.Context(), "h"); err != nil ||
			name == "PLAIN" && string(first) != "\x00u\x00renewed" {
			t.Errorf("%s: begins by %q, %v", name, first, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if _, _, err := m.Authenticate(t.Context(), "h"); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s without its file: %v", name, err)
		}
	}
	dir := t.TempDir()
	files := TLS{TLS: connect.TLS{CAFile: dir + "/ca", CertFile: dir + "/cert", KeyFile: dir + "/key"}, Enabled: true}
	renew := func() tls.Certificate {
		t.Helper()
		cert, key := testprocess.Certificate(t, "127.0.0.1")
		put(files.CAFile, cert)
		put(files.CertFile, cert)
		put(files.KeyFile, key)
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	now := renew()
	broker, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		ClientAuth:     tls.RequireAnyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &now, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = broker.Close() }()
	options, err := secure(SASL{}, files)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(broker.Addr().String()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 2 {
		if i > 0 {
			now = renew()
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = client.Ping(ctx) // nobody answers it
		}()
		conn, err := broker.Accept()
		if err != nil {
			t.Fatal(err)
		}
		shown := conn.(*tls.Conn) //nolint:forcetypeassert // the listener's own
		if err := shown.HandshakeContext(ctx); err != nil {
			t.Errorf("certificate %d: %v", i, err)
		} else if got := shown.ConnectionState().PeerCertificates[0]; !bytes.Equal(got.Raw, now.Certificate[0]) {
			t.Errorf("connection %d shows another certificate than the files hold", i)
		}
		cancel()
		_ = conn.Close()
		<-done
	}
}
