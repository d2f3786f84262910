//go:build unix

package connect_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/test/testbroker"
)

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	cert, key := testbroker.Certificate(t)
	config, err := connect.TLS{CAFile: cert, CertFile: cert, KeyFile: key}.Config("amqp")
	if err != nil || config.RootCAs == nil || len(config.Certificates) != 1 || config.MinVersion != tls.VersionTLS12 {
		t.Fatalf("got %+v, %v", config, err)
	}
	if config, err = (connect.TLS{}).Config("amqp"); err != nil || config.RootCAs != nil || config.Certificates != nil {
		t.Errorf("without files: %+v, %v", config, err)
	}
	// The files may be replaced.
	write(t, cert, "renewed, and not well")
	for want, files := range map[string]connect.TLS{
		"amqp.tls.caFile: " + cert + " holds no PEM certificate": {CAFile: cert},
		"amqp.tls.caFile: open " + dir + "/none":                 {CAFile: dir + "/none"},
		"amqp.tls.certFile, keyFile: tls: failed":                {CertFile: cert, KeyFile: key},
	} {
		if _, err := files.Config("amqp"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestFilesAreValidated(t *testing.T) {
	for want, files := range map[string]connect.TLS{
		"[]": {CAFile: "a", CertFile: "c", KeyFile: "k"},
		"[tls.keyFile: is required with certFile]": {CertFile: "c"},
		"[tls.certFile: is required with keyFile]": {KeyFile: "k"},
	} {
		if got := fmt.Sprint(files.Validate()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestLoginsAreValidated(t *testing.T) {
	for _, c := range []struct {
		login          connect.Login
		password, user string
	}{
		{connect.Login{}, "[]", "[]"},
		{connect.Login{User: "u", Password: "s3cret"}, "[]", "[]"},
		{connect.Login{User: "u"}, "[user: has no password: set password or passwordFile]", "[]"},
		{
			connect.Login{User: "u", Password: "s3cret", PasswordFile: "f"},
			"[passwordFile: is set together with password: use one of them]", "[]",
		},
		{connect.Login{Password: "s3cret"}, "[]", "[password: is set without user]"},
		{connect.Login{PasswordFile: "f"}, "[]", "[passwordFile: is set without user]"},
	} {
		if got := fmt.Sprint(c.login.Validate()); got != c.password {
			t.Errorf("%+v: got %s, want %s", c.login, got, c.password)
		}
		if got := fmt.Sprint(c.login.ValidateUser()); got != c.user {
			t.Errorf("%+v: got %s, want %s", c.login, got, c.user)
		}
	}
}

func TestPasswordsAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	login := connect.Login{User: "u", PasswordFile: file}
	_, err := login.ReadPassword("kafka.sasl")
	if err == nil || !strings.HasPrefix(err.Error(), "kafka.sasl.passwordFile: ") {
		t.Errorf("got %v", err)
	}
	for _, password := range []string{"first", "second"} {
		write(t, file, password+"\n")
		if got, err := login.ReadPassword("kafka.sasl"); err != nil || got != password {
			t.Errorf("got %q, %v, want %s", got, err, password)
		}
	}
	if got, err := (connect.Login{Password: "given"}).ReadPassword("amqp"); err != nil || got != "given" {
		t.Errorf("got %q, %v", got, err)
	}
}
