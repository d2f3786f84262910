package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/settings"
)

func printed(t *testing.T, s *Config) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Print(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPrintGolden(t *testing.T) {
	abs, err := filepath.Abs("testdata/print.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := readScenario(t, abs)
	s.chdir(t)
	loaded, err := Load([]string{"."}, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	got := printed(t, loaded)
	s.compare(t, abs, got)
	for _, secret := range []string{"hunter2", "twenty", "orders\n"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q is printed, which came from outside the file or is a password:\n%s", secret, got)
		}
	}
}

// What a variable or a file holds is never printed, whatever its name and wherever it comes in.
func TestPrintShowsNothingFromOutside(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "s3cret.from-file:1")
	s := load(t, `
cluster: $(A)
instance: $(A)
zone: $(A)
rollout: $(A)
labels: {x: $(A)}
pod: {uid: $(A), container: $(A), dir: $(A)}
store: {uri: "sqlite:$(A).db"}
server: {advertise: "$(A)", hosts: [a, "$(A)"], tls: {certFile: "$(A)", keyFile: "$(A)"}}
app: {listen: unix:/a, command: [run, "$(A)", --token, "x$(A)", "--dir=$(A)/d"]}
admin: {tokensFile: "$(file:`+secret+`)"}
groups:
  - name: $(A)
    tasks: [{name: $(A), labels: {x: $(A)}, exec: {command: [$(A)], env: {X: $(A)}, dir: $(A)}}]
`)
	got := printed(t, s)
	// groups and tasks are known by their names, here and everywhere
	got = strings.ReplaceAll(got, "name: s3cret", "name: A")
	if strings.Contains(got, "s3cret") {
		t.Errorf("printed:\n%s", got)
	}
	for _, want := range []string{
		"hosts:\n    - a\n    - $(A)\n", "- run\n    - $(A)\n    - --token\n    - xxxxx\n    - --dir=$(A)/d\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if !strings.Contains(got, "certFile: $(A)") || !strings.Contains(got, "tokensFile: $(file:"+secret+")") {
		t.Errorf("not shown as it is written:\n%s", got)
	}
}

func TestPrintIsAConfiguration(t *testing.T) {
	first, err := Load([]string{"../../config/full.yaml"}, optionsOf(os.LookupEnv))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, printed(t, first))
	second, err := Load([]string{path}, optionsOf(os.LookupEnv))
	if err != nil {
		t.Fatal(err)
	}
	if changed := changed(first.Settings, second.Settings); len(changed) > 0 {
		t.Errorf("printed and loaded again, %v differ", changed)
	}
	for i, g := range first.Groups {
		for j, task := range g.Tasks {
			again := second.Groups[i].Tasks[j]
			task.Index = again.Index // the braces are gone
			if !reflect.DeepEqual(task, again) {
				t.Errorf("printed and loaded again, %s is\n%+v, it was\n%+v", task.Name, again, task)
			}
		}
	}
}

func TestMaskURI(t *testing.T) {
	for text, want := range map[string]string{
		"mongodb://u:p@h/d":                        "mongodb://u:xxxxx@h/d",
		"mongodb://u:p@h@h/d":                      "mongodb://u:xxxxx@h/d",
		"mongodb://u:p/q?r@h/d":                    "mongodb://u:xxxxx@h/d",
		"mongodb://u@h/d":                          "mongodb://u@h/d",
		"mongodb://u:$(P)@h/d":                     "mongodb://u:xxxxx@h/d",
		"https://u:$(P)@h/d":                       "https://u:$(P)@h/d",
		"mongodb://h/d?a=b&proxyPassword=p&c=d":    "mongodb://h/d?a=b&proxyPassword=xxxxx&c=d",
		"mongodb://h/?authMechanismProperties=A:b": "mongodb://h/?authMechanismProperties=xxxxx",
		"https://u:p@svc/x":                        "https://u:xxxxx@svc/x",
		"psql postgres://u:p@h/d -c 'select 1'":    "psql postgres://u:xxxxx@h/d -c 'select 1'",
		"sqlite:a.db":                              "sqlite:a.db",
		"":                                         "",
	} {
		if got := (settings.Store{URI: text}).Masked(); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

// A field that has no effect with another is refused, and so it is not printed.
func TestPrintLeavesOutWhatHasNoEffect(t *testing.T) {
	text := printed(t, load(t, group("      - {name: a, callback: f, every: 1m, catchUp: none}\n")))
	if strings.Contains(text, "catchUpWindow") {
		t.Errorf("printed:\n%s", text)
	}
	load(t, text)
}
