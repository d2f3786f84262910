package config

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/settings"
)

func TestApp(t *testing.T) {
	if s := load(t, minimal); !reflect.DeepEqual(s.App, settings.App{}) {
		t.Errorf("without app: %+v", s.App)
	}
	for text, want := range map[string]settings.App{
		`{listen: "unix:/run/app.sock"}`:           {Listen: "unix:/run/app.sock"},
		`{listen: "127.0.0.1:8082", tokenFile: t}`: {Listen: "127.0.0.1:8082", TokenFile: "t"},
		`{listen: "localhost:8082", command: [a, b]}`: {
			Listen: "localhost:8082", Command: []string{"a", "b"},
		},
		`{address: "$(POD_IP):9000"}`: {Address: "10.1.2.3:9000"},
		`{listen: "unix:/$(WORD)", command: [a, "$(TWENTY)x"]}`: {
			Listen: "unix:/twenty", Command: []string{"a", "20x"},
		},
	} {
		if got := load(t, minimal+"app: "+text+"\n").App; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}

func TestAppIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		`{listen: "unix:app.sock"}`: `a.yaml:2:15: app.listen: is "unix:app.sock", ` +
			"must be unix:",
		`{listen: "unix:/` + strings.Repeat("x", 90) + `"}`: "an absolute path of at most 90 bytes",
		`{listen: "0.0.0.0:8082", tokenFile: t}`: `"0.0.0.0:8082", ` +
			"must be unix:/PATH, or HOST:PORT on loopback",
		`{listen: ":8082", tokenFile: t}`:                      `app.listen: is ":8082", must be`,
		`{listen: "127.0.0.1", tokenFile: t}`:                  `app.listen: is "127.0.0.1", must be`,
		`{listen: "127.0.0.1:0", tokenFile: t}`:                "on loopback with a port that is not 0",
		`{listen: "127.0.0.1:8082"}`:                           `app.tokenFile: is required, since app.listen is "127`,
		`{command: [a]}`:                                       "a.yaml:2:16: app.listen: is required with command",
		`{listen: "unix:/a", tokenFile: t, command: [a]}`:      "app.tokenFile: goes without command",
		`{listen: "unix:/a", command: [""]}`:                   "app.command: begins with an empty text",
		`{address: ":9000"}`:                                   `app.address: is ":9000", must be HOST:PORT`,
		`{socket: a}`:                                          "app.socket: is not a field",
		`{listen: "unix:/a", command: python3}`:                "app.command: is text, must be a list",
		`{listen: [], command: [a], address: "10.0.0.1:9000"}`: "app.listen: is a list, must be text",
	} {
		_, err := tryLoad(t, minimal+"app: "+text+"\n")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v, want one error: %s", text, err, want)
		}
	}
}

// A task with assign needs somebody who runs it.
func TestAssignNeedsAnApplication(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	options := Options{Env: testEnv, Kinds: kinds.All(), Listers: kinds.Listers()}
	tasks := minimal + "groups: [{name: g, tasks: [{name: a, assign: {}}]}]\n"
	write(t, path, tasks)
	_, err := Load([]string{path}, options)
	if want := "app.listen: is required, since g/a has assign"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	write(t, path, tasks+"app: {listen: unix:/a}\n")
	if s, err := Load([]string{path}, options); err != nil || s.Groups[0].Tasks[0].Kind() != "assign" {
		t.Errorf("with app: %v", err)
	}
}
