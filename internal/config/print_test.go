package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func printed(t *testing.T, s *Settings) string {
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
	loaded, err := Load([]string{"."}, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	got := printed(t, loaded)
	s.compare(t, abs, got)
	if strings.Contains(got, "hunter2") {
		t.Errorf("a password is printed:\n%s", got)
	}
}

func TestPrintIsAConfiguration(t *testing.T) {
	first, err := Load([]string{"../../config/full.yaml"}, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, printed(t, first))
	second, err := Load([]string{path}, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if changed := Changed(first, second); len(changed) > 0 {
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

func TestMaskText(t *testing.T) {
	for text, want := range map[string]string{
		"mongodb://u:p@h/d":                        "mongodb://u:xxxxx@h/d",
		"mongodb://u:p@h@h/d":                      "mongodb://u:xxxxx@h/d",
		"mongodb://u:p/q?r@h/d":                    "mongodb://u:xxxxx@h/d",
		"mongodb://u@h/d":                          "mongodb://u@h/d",
		"mongodb://u:$(P)@h/d":                     "mongodb://u:$(P)@h/d",
		"mongodb://h/d?a=b&proxyPassword=p&c=d":    "mongodb://h/d?a=b&proxyPassword=xxxxx&c=d",
		"mongodb://h/?authMechanismProperties=A:b": "mongodb://h/?authMechanismProperties=xxxxx",
		"https://svc/x?token=abc#f":                "https://svc/x?token=xxxxx#f",
		"psql postgres://u:p@h/d -c 'select 1'":    "psql postgres://u:xxxxx@h/d -c 'select 1'",
		"sqlite:a.db":                              "sqlite:a.db",
		"":                                         "",
	} {
		if got := maskText(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}
