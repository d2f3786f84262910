package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/settings"
)

func TestRenewDeadlineFollowsDuration(t *testing.T) {
	if s := load(t, minimal+"lease: {duration: 4s}\n"); s.Lease.RenewDeadline != 3*time.Second {
		t.Errorf("renewDeadline %s, want 3s", s.Lease.RenewDeadline)
	}
}

func TestPod(t *testing.T) {
	if s := load(t, minimal); s.Pod != (settings.Pod{}) || s.Rollout != "" {
		t.Errorf("got %+v, rollout %q", s.Pod, s.Rollout)
	}
	env := "" // what POD_UID holds
	lookup := func(name string) (string, bool) { return env, name == "POD_UID" }
	for _, c := range []struct{ env, pod, uid string }{
		{"", "{container: c, dir: d}", ""},
		{"", "{uid: '$(POD_UID:-)', container: c, dir: d}", ""},
		{"u", "{container: c, dir: d}", "u"},
		{"u", "{uid: '', container: c, dir: d}", "u"},
		{"u", "{uid: 1e2, container: c, dir: d}", "1e2"},
	} {
		env = c.env
		path := filepath.Join(t.TempDir(), "a.yaml")
		write(t, path, minimal+"pod: "+c.pod+"\n")
		s, err := Load([]string{path}, optionsOf(lookup))
		if err != nil {
			t.Errorf("%s: %v", c.pod, err)
			continue
		}
		if want := (settings.Pod{UID: c.uid, Container: "c", Dir: "d"}); s.Pod != want {
			t.Errorf("POD_UID=%s, pod: %s: got %+v, want %+v", c.env, c.pod, s.Pod, want)
		}
	}
}

func TestPodIsWholeOrLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"pod: {uid: u, container: c}":  "a.yaml:2:26: pod.dir: is required with container",
		"pod: {dir: d}":                "a.yaml:2:12: pod.container: is required with dir",
		"pod: {uid: u}":                "a.yaml:2:12: pod: needs container and dir with uid",
		"pod: {container: [], dir: d}": "a.yaml:2:18: pod.container: is a list, must be text",
		"pod: {name: c}":               "a.yaml:2:7: pod.name: is not a field",
		"rollout: a b":                 `a.yaml:2:10: rollout: is "a b", must be at most 63 letters`,
		"rollout: $(PASSWORD)/":        "a.yaml:2:10: rollout: what $(PASSWORD)/ holds is not allowed, must be",
	} {
		_, err := tryLoad(t, minimal+text+"\n")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v, want one error: %s", text, err, want)
		}
	}
}

func TestAdvertise(t *testing.T) {
	for server, want := range map[string]string{
		`{}`:                                     "10.1.2.3:8080",
		`{listen: ":9090"}`:                      "10.1.2.3:9090",
		`{listen: "0.0.0.0:9090"}`:               "10.1.2.3:9090",
		`{listen: "[::]:9090"}`:                  "10.1.2.3:9090",
		`{listen: "127.0.0.1:9090"}`:             "127.0.0.1:9090",
		`{advertise: "a.example"}`:               "a.example:8080",
		`{advertise: "a.example:1"}`:             "a.example:1",
		`{advertise: "fd00::1", listen: ":70"}`:  "[fd00::1]:70",
		`{advertise: "[fd00::1]:71"}`:            "[fd00::1]:71",
		`{advertise: "$(POD_IP):$(NO:-82)"}`:     "10.1.2.3:82",
		`{advertise: "$(EMPTY)", listen: "h:1"}`: "h:1",
	} {
		if got := load(t, minimal+"server: "+server+"\n").Server.Advertise; got != want {
			t.Errorf("server %s is advertised as %s, want %s", server, got, want)
		}
	}
}

func TestAdminOnLoopbackNeedsNoTokens(t *testing.T) {
	for listen, ok := range map[string]bool{
		"127.0.0.1:1": true, "127.8.8.8:1": true, "[::1]:1": true, "localhost:1": true,
		":1": false, "10.0.0.1:1": false, "[::]:1": false, "host:1": false,
	} {
		_, err := tryLoad(t, minimal+"admin: {listen: '"+listen+"'}\n")
		if (err == nil) != ok {
			t.Errorf("admin.listen %s: %v, want it taken: %v", listen, err, ok)
		}
		load(t, minimal+"admin: {listen: '"+listen+"', tokensFile: tokens}\n")
	}
}

func TestStoreURIs(t *testing.T) {
	for uri, database := range map[string]string{
		"mongodb://h":                                 "shardctl",
		"mongodb://h/":                                "shardctl",
		"mongodb://h:27017/a?replicaSet=rs":           "a",
		"mongodb://u:p%40ss@h1,h2:2/a":                "a",
		"mongodb+srv://u:p@cluster.example.net/b":     "b",
		"mongodb+srv://cluster.example.net/?tls=true": "shardctl",
		"mongodb://%2Ftmp%2Fmongodb-27017.sock/a":     "a",
		"mongodb://[fd00::1]:27017,[fd00::2]":         "shardctl",
		"sqlite:/var/lib/shardctl/x.db":               "",
		"sqlite:x.db":                                 "",
	} {
		s := load(t, "store: {uri: '"+uri+"'}\n")
		if s.Store.URI != uri || s.Store.Database != database {
			t.Errorf("%s: got %+v, want database %q", uri, s.Store, database)
		}
	}
	if s := load(t, "store: {uri: 'mongodb://h/a', database: b}\n"); s.Store.Database != "b" {
		t.Errorf("database %q, want b: what is written wins", s.Store.Database)
	}
}

func TestLimitOfNames(t *testing.T) {
	s := load(t, group("      - {name: 'a{1..99999}', callback: f}\n      - {name: b, callback: f}\n"))
	if n := s.Tasks(); n != 100_000 {
		t.Errorf("%d tasks, want 100,000", n)
	}
	_, err := tryLoad(t, group("      - {name: 'a{1..99999}', callback: f}\n      - {name: 'b{1,2}', callback: f}\n"))
	if err == nil || !strings.Contains(err.Error(), "a group has at most 100000") {
		t.Errorf("error %v, want the limit", err)
	}
}

func TestOutputIsShown(t *testing.T) {
	for _, test := range []struct {
		logs           settings.ServeLogs
		listen, tokens string
		want           bool
	}{
		{settings.ServeLogsAuto, ":8080", "", false},
		{settings.ServeLogsAuto, "127.0.0.1:8080", "", true},
		{settings.ServeLogsAuto, "localhost:8080", "", true},
		{settings.ServeLogsAuto, "[::1]:8080", "", true},
		{settings.ServeLogsAuto, "10.0.0.1:8080", "", false},
		{settings.ServeLogsAuto, ":8080", "tokens", true},
		{settings.ServeLogsYes, ":8080", "", true},
		{settings.ServeLogsNo, "127.0.0.1:8080", "", false},
		{settings.ServeLogsNo, ":8080", "tokens", false},
	} {
		s := &settings.Settings{
			Server: settings.Server{Listen: test.listen, Logs: test.logs},
			Admin:  settings.Admin{TokensFile: test.tokens},
		}
		if got := s.ShowsOutput(); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
