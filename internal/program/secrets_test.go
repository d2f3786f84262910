package program

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// secretURIs are texts of URIs for each store, with the variables of each that commands must not get. Other variables
// that occur in them are shown by the URI, and tasks may well need them.
var secretURIs = []struct {
	text     string
	withheld []string
}{
	{"sqlite:$(HOME)/$(DIR:-x).db", nil},
	{"$(WHOLE)", []string{"WHOLE"}},
	{"$(WHOLE:-sqlite:x.db)", []string{"WHOLE"}},
	{"mongodb://$(NAME):$(SECRET)@$(HOST):$(PORT)/$(DIR)", []string{"SECRET"}},
	{"mongodb://$(NAME):$(AS_NAME)@$(HOST)", []string{"AS_NAME"}},
	{"mongodb://$(BOTH)@$(HOST)/x?replicaSet=$(DIR)", []string{"BOTH"}},
	{"mongodb+srv://$(HOST)/?authMechanism=MONGODB-AWS&authSource=$external", []string{
		"AWS_ACCESS_KEY_ID", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
		"AWS_WEB_IDENTITY_TOKEN_FILE",
	}},
	{"mongodb://$(HOST)/?authMechanism=MONGODB-OIDC", []string{
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_FEDERATED_TOKEN_FILE",
	}},
	{"postgres://$(NAME):$(SECRET)@$(HOST):$(PORT)/$(DIR)?sslmode=disable", append(slices.Clone(pgSecrets), "SECRET")},
	{"postgres://$(NAME)@$(HOST)/?sslpassword=$(SECRET)", append(slices.Clone(pgSecrets), "SECRET")},
	{"postgres://$(HOST)", pgSecrets},
	{"mysql://$(NAME):$(SECRET)@$(HOST):$(PORT)/$(DIR)", []string{"SECRET"}},
	{"redis://$(NAME):$(SECRET)@$(HOST):$(PORT)", []string{"SECRET"}},
	{"rediss://:$(SECRET)@$(HOST):$(PORT)", []string{"SECRET"}},
	{"redis+cluster://$(NAME):$(SECRET)@$(HOST):$(PORT)", []string{"SECRET"}},
	{"quorum:redis://$(NAME):$(SECRET)@$(HOST):$(PORT),redis://b,redis://c", []string{"SECRET"}},
	{"etcd://$(NAME):$(SECRET)@$(HOST):$(PORT)", []string{"SECRET"}},
	{"zk://$(NAME):$(SECRET)@$(HOST):$(PORT)/$(DIR)", []string{"SECRET"}},
	{"mongodb://u:$(file:/run/secret)@$(HOST)", nil},
	{"none://$(HOST)", []string{"HOST"}}, // whatever it is
}

var pgSecrets = []string{
	"PGPASSFILE", "PGPASSWORD", "PGSERVICE", "PGSERVICEFILE", "PGSSLCERT", "PGSSLKEY", "PGSSLPASSWORD",
}

func TestVariablesThatHoldASecretOfTheStore(t *testing.T) {
	values := map[string]string{
		"HOME": "/home/u", "NAME": "ann", "SECRET": "s3cret", "AS_NAME": "ann", "BOTH": "ann:s3cret", "HOST": "db.test",
		"PORT": "10007", "DIR": "d", "WHOLE": "mongodb://ann:s3cret@db.test",
	}
	lookup := func(name string) (string, bool) { value, ok := values[name]; return value, ok }
	tried := map[string]bool{}
	for _, test := range secretURIs {
		if got := config.SecretVariables(test.text, lookup); !slices.Equal(got, test.withheld) {
			t.Errorf("%s: %q, want %q", test.text, got, test.withheld)
		}
		scheme, _, _ := strings.Cut(test.text, ":")
		if d, err := driver.Lookup(scheme + ":"); err == nil {
			tried[d.Name()] = true
		}
	}
	for _, s := range driver.Schemes() {
		if !tried[s.Driver] && s.Driver != "reporting" { // that one is of another test
			t.Errorf("no URI of %s is tried", s.Driver)
		}
	}
}

// Whatever starts a command keeps from it what opens the store, unless a task's own env gives it.
func TestCommandsDoNotInheritTheStoresSecrets(t *testing.T) {
	r := sqliteRig(t)
	file := filepath.Join(r.dir, "a.yaml")
	prints := func(name string) string {
		return fmt.Sprintf(`[sh, -c, "env > %s.new; mv %[1]s.new %[1]s; exec sleep 1000"]`, name)
	}
	text := fmt.Sprintf(`
store: {uri: "$(%s)"}
lease: {duration: 20s}
server: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
app: {listen: "unix:%s/app/app.sock", command: %s}
groups:
  - name: g
    tasks:
      - {name: plain, exec: {command: %s}}
      - {name: given, exec: {command: %s, env: {%[1]s: "$(%[1]s)"}}}
      - {name: assigned, assign: {}}
`, envLockStore, r.dir, prints("app.env"), prints("plain.env"), prints("given.env"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	replica := program(ctx, t, "run", "--config", file)
	replica.Env, replica.Dir = append(replica.Env, envLockStore+"="+r.uri), r.dir
	if err := replica.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = replica.Wait()
	})
	// The command of lock is given the store by the same variable.
	r.sh("env > lock.env.new; mv lock.env.new lock.env").want("the command", 0)
	for _, name := range []string{"plain.env", "given.env", "app.env", "lock.env"} {
		has := strings.Contains(r.wrote(name), envLockStore+"=")
		if has != (name == "given.env") {
			t.Errorf("%s: it has the store's secret: %v", name, has)
		}
	}
}
