package nats_test

import (
	"os"
	"path/filepath"
	"testing"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/nats"
)

func TestLogin(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	b := testbroker.NATS(t, `authorization: {users: [
		{user: ann, password: s3cret}, {nkey: `+public+`},
		{user: bob, password: other, permissions: {publish: ["x"], subscribe: ["x", "_INBOX.>"]}},
	]}`)
	r := rigAt(t, b, natsio.UserInfo("ann", "s3cret"))
	r.stream(jetstream.StreamConfig{})
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	passwordFile, nkeyFile := file("password", "s3cret\n"), file("nkey", string(seed))
	for name, c := range map[string]struct {
		server string
		login  nats.Login
		wants  []string
	}{
		"field":      {b.Addr, nats.Login{User: "ann", Password: "s3cret"}, nil},
		"file":       {b.Addr, nats.Login{User: "ann", PasswordFile: passwordFile}, nil},
		"url":        {"nats://ann:s3cret@" + b.Addr, nats.Login{}, nil},
		"nkey":       {b.Addr, nats.Login{NKeyFile: nkeyFile}, nil},
		"none":       {b.Addr, nats.Login{}, []string{"Authorization Violation", "correct the login", b.Addr}},
		"wrong":      {b.Addr, nats.Login{User: "ann", Password: "secret"}, []string{"correct the login", b.Addr}},
		"wrong url":  {"nats://ann:secret@" + b.Addr, nats.Login{}, []string{"correct the login", b.Addr}},
		"no file":    {b.Addr, nats.Login{User: "ann", PasswordFile: dir + "/x"}, []string{"nats.passwordFile", "no such"}},
		"no creds":   {b.Addr, nats.Login{CredsFile: dir + "/x"}, []string{"nats.credsFile", "no such"}},
		"no seed":    {b.Addr, nats.Login{NKeyFile: passwordFile}, []string{"nats.nkeyFile"}},
		"bad token":  {b.Addr, nats.Login{TokenFile: passwordFile}, []string{"correct the login", b.Addr}},
		"no rights":  {b.Addr, nats.Login{User: "bob", Password: "other"}, []string{b.Addr, r.name}},
		"tls":        {"tls://" + b.Addr, nats.Login{User: "ann", Password: "s3cret"}, []string{"the server has no TLS"}},
		"nobody":     {"127.0.0.1:1", nats.Login{}, []string{"127.0.0.1:1", "none of the servers answers"}},
		"the second": {"127.0.0.1:1," + b.Addr, nats.Login{User: "ann", Password: "s3cret"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.Task = sourcetest.Named(t, "shop", "orders")
			r.source.Servers, r.source.Login = []string{c.server}, c.login
			if c.wants == nil {
				r.open(1).Close()
				return
			}
			sourcetest.WantError(t, r.refused(1), c.wants...)
		})
	}
}
