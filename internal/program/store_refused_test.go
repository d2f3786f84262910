//go:build unix

package program

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// badStore is a store that cannot be used as its URI says.
type badStore struct {
	uri  string
	code int
	says string // what to do
}

// secret is the password of every user here, or a wrong one: it stands in no error.
const secret = "opensesame"

// Whatever is wrong with a store, store check and run end with the documented code, and one line says what to do. Where
// the set-up is wrong, run has a code of its own, after which no supervisor starts it again.
func TestStoresThatAreRefused(t *testing.T) {
	for store, cases := range map[string]func(*testing.T) map[string]badStore{
		"MongoDB": badMongoDB, "PostgreSQL": badPostgreSQL, "MariaDB": badMariaDB, "Redis": badRedis,
		"etcd": badEtcd, "ZooKeeper": badZooKeeper,
	} {
		t.Run(store, func(t *testing.T) {
			for name, bad := range cases(t) {
				t.Run(name, func(t *testing.T) { bad.wantRefused(t) })
			}
		})
	}
}

func (b badStore) wantRefused(t *testing.T) {
	t.Helper()
	config := writeConfig(t, "version: 1\nlog: {level: error}\nstore: {uri: '"+b.uri+"'}\n"+
		"server: {listen: '127.0.0.1:0'}\nadmin: {listen: '127.0.0.1:0'}\n"+
		"groups: [{name: g, tasks: [{name: a, exec: {command: [date]}}]}]\n")
	for _, args := range [][]string{
		{"store", "check", "--timeout", "30s", b.uri},
		{"store", "check", "--timeout", "30s", "--config", config},
		{"run", "--config", config, "--wait-store", "0s"},
	} {
		got, want := runProgram(t, args...), b.code
		if args[0] == "run" && want == cli.CodeUsage {
			want = cli.CodeConfig
		}
		if got.code != want || !strings.Contains(got.stderr, b.says) || strings.Count(got.stderr, "\n") != 1 ||
			!strings.HasPrefix(got.stderr, "error: ") || strings.Contains(got.stderr+got.stdout, secret) {
			t.Errorf("%s: code %d, want %d and one line that says %q:\n%s%s", args[0], got.code, want, b.says,
				got.stdout, got.stderr)
		}
	}
	if got := runProgram(t, "validate", config); got.code != 0 { // it asks no store
		t.Errorf("validate: %+v", got)
	}
}

func badMongoDB(t *testing.T) map[string]badStore {
	t.Helper()
	cert, key := testprocess.Certificate(t, "127.0.0.1")
	other, _ := testprocess.Certificate(t, "127.0.0.1")
	pem := append(readFile(t, cert), readFile(t, key)...)
	rs := testmongo.New(t, testmongo.Options{
		Nodes: 1, Auth: true, TLS: &testmongo.TLS{Identity: pem, Authorities: readFile(t, cert)},
	})
	both := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(both, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rs.RunOnPrimary(t.Context(), bson.D{
		{Key: "createUser", Value: "reader"},
		{Key: "pwd", Value: secret},
		{Key: "roles", Value: bson.A{bson.M{"role": "read", "db": "shardctl"}}},
	}).Err(); err != nil {
		t.Fatal(err)
	}
	return map[string]badStore{
		"wrong password": {rs.URIAs("reader", secret+"2"), cli.CodeUsage, "wrong user or password"},
		"no rights":      {rs.URIAs("reader", secret), cli.CodeUsage, "lacks privileges"},
		"wrong CA": {
			rs.URIAs("reader", secret) + "&tls=true&tlsCAFile=" + other + "&tlsCertificateKeyFile=" + both,
			cli.CodeUsage, "tlsCAFile",
		},
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func badPostgreSQL(t *testing.T) map[string]badStore {
	t.Helper()
	pair := testservers.StartPostgresPair(t)
	server := pair.Primary
	if err := testservers.PostgresExec(t.Context(), server, "CREATE ROLE named LOGIN PASSWORD '"+secret+"'",
		"CREATE ROLE poor LOGIN"); err != nil {
		t.Fatal(err)
	}
	if err := server.Server().Site().WriteFile("data/pg_hba.conf", []byte(
		"host postgres named 127.0.0.1/32 scram-sha-256\nhost postgres,missing all 127.0.0.1/32 trust\n")); err != nil {
		t.Fatal(err)
	}
	if err := testservers.PostgresExec(t.Context(), server, "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	at := func(user, database string) string {
		return "postgres://" + user + "@" + server.Addr + "/" + database + "?sslmode=disable"
	}
	return map[string]badStore{
		"wrong password": {at("named:"+secret+"2", "postgres"), cli.CodeUsage, "check the user, the password"},
		"no rights":      {at("poor", "postgres"), cli.CodeUsage, "docs/stores/postgresql.md"},
		"no database":    {at("poor", "missing"), cli.CodeUsage, "create the database"},
		"no TLS":         {strings.Replace(at("poor", "postgres"), "disable", "require", 1), cli.CodeNo, "TLS"},
		"read-only": {
			strings.Replace(at("poor", "postgres"), server.Addr, pair.Standby.Addr, 1), cli.CodeNo, "name the primary",
		},
	}
}

func badMariaDB(t *testing.T) map[string]badStore {
	t.Helper()
	server := testservers.Shared(t, testservers.KindMariaDB)
	poor := strings.ToLower(testservers.Name())
	if err := testservers.MariaDBExec(t.Context(), server.Server(), "CREATE DATABASE "+poor+"; CREATE USER "+poor+
		"@'%' IDENTIFIED BY '"+secret+"'; GRANT SELECT ON "+poor+".* TO "+poor+"@'%'"); err != nil {
		t.Fatal(err)
	}
	frozen := testservers.Start(t, testservers.KindMariaDB, "read-only")
	at := func(password, database string) string {
		return "mysql://" + poor + ":" + password + "@" + server.Addr + "/" + database
	}
	return map[string]badStore{
		"wrong password": {at(secret+"2", poor), cli.CodeUsage, "check user and password"},
		"no rights":      {at(secret, poor), cli.CodeUsage, "grant the user the rights"},
		"no database":    {testservers.MariaDBRoot(server, "missing"), cli.CodeUsage, "create the database"},
		"wrong CA":       {at(secret, poor) + "?tls=true", cli.CodeUsage, "TLS"},
		"read-only":      {frozen.Database(), cli.CodeNo, "read-only"},
	}
}

func badRedis(t *testing.T) map[string]badStore {
	t.Helper()
	server := testservers.Start(t, testservers.KindRedis, "user reader on >"+secret+" ~* +@read +info +eval +evalsha",
		"user default on >"+secret+" ~* &* +@all")
	host, port, _ := strings.Cut(server.Addr, ":")
	replica := testservers.Start(t, testservers.KindRedis, "replicaof "+host+" "+port, "masterauth "+secret)
	open := testservers.Shared(t, testservers.KindRedis)
	evicting := testservers.Start(t, testservers.KindRedis, "maxmemory 100mb", "maxmemory-policy allkeys-lru")
	return map[string]badStore{
		"wrong password": {"redis://:" + secret + "2@" + server.Addr, cli.CodeUsage, "wrong user or password"},
		"no rights":      {"redis://reader:" + secret + "@" + server.Addr, cli.CodeUsage, "lacks rights"},
		"no database":    {"redis://" + open.Addr + "/99999999", cli.CodeUsage, "no database of this number"},
		"read-only":      {"redis://" + replica.Addr + "?nodes=2", cli.CodeNo, "is a replica"},
		"eviction":       {"redis://" + evicting.Addr, cli.CodeUsage, "set it to noeviction"},
	}
}

func badEtcd(t *testing.T) map[string]badStore {
	t.Helper()
	cert, key := testprocess.Certificate(t, "shardctl")
	other, _ := testprocess.Certificate(t, "shardctl")
	encrypted := testservers.Start(t, testservers.KindEtcd, "client-transport-security:", `  cert-file: "`+cert+`"`,
		`  key-file: "`+key+`"`)
	server := testservers.Start(t, testservers.KindEtcd)
	for _, call := range []struct {
		path string
		body map[string]string
	}{
		{"user/add", map[string]string{"name": "root", "password": secret}},
		{"role/add", map[string]string{"name": "root"}},
		{"user/grant", map[string]string{"user": "root", "role": "root"}},
		{"user/add", map[string]string{"name": "poor", "password": secret}},
		{"enable", map[string]string{}},
	} {
		etcdAuth(t, server.Addr, call.path, call.body)
	}
	return map[string]badStore{
		"wrong password": {"etcd://poor:" + secret + "2@" + server.Addr + "/p", cli.CodeUsage, "wrong user or password"},
		"no log-in":      {"etcd://" + server.Addr + "/p", cli.CodeUsage, "asks for a log-in"},
		"no rights":      {"etcd://poor:" + secret + "@" + server.Addr + "/p", cli.CodeUsage, "lacks the permission"},
		"wrong CA": {
			"etcd://" + encrypted.Addr + "/p?tlsCAFile=" + other, cli.CodeUsage,
			"no known authority has signed the server's certificate",
		},
	}
}

// etcdAuth calls etcd's own gateway for HTTP.
func etcdAuth(t *testing.T, addr, path string, body map[string]string) {
	t.Helper()
	content, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v3/auth/"+path,
		bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s (%v)", path, response.Status, text, err)
	}
}

func badZooKeeper(t *testing.T) map[string]badStore {
	t.Helper()
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	as := func(user, password string) string {
		return strings.Replace(uri, "zk://", "zk://"+user+":"+password+"@", 1)
	}
	// What it makes is the user's alone.
	if got := runProgram(t, "store", "check", as("app", secret)); got.code == cli.CodeUsage || got.stderr != "" {
		t.Fatalf("%+v", got)
	}
	return map[string]badStore{
		"wrong password": {as("app", secret+"2"), cli.CodeUsage, "wrong password"},
		"no rights":      {as("other", secret), cli.CodeUsage, "user other"},
	}
}
