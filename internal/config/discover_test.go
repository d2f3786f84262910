package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/runners/exec"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// loadText loads one file with this content.
func loadText(t *testing.T, text string) *Config {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load([]string{"a.yaml"}, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const discoverHead = "store: {uri: \"sqlite:a.db\"}\ngroups:\n  - name: g\n    discover: {file: {path: a}}\n"

// A name that somebody else gave is not to be read as a shell's script.
func TestWarnsOfNamesInAShell(t *testing.T) {
	for command, warned := range map[string]bool{
		`[sh, -c, "consume $(DISCOVERED_NAME)"]`:                       true,
		`[/bin/bash, -ec, "consume $(DISCOVERED_NAME:-x)"]`:            true,
		`[bash, -e, -o, pipefail, -c, "consume $(DISCOVERED_NAME)"]`:   true,
		`[env, A=b, sh, -lc, "consume $(DISCOVERED_NAME)", x]`:         true,
		`[sh, -c, 'consume "$0"', $(DISCOVERED_NAME)]`:                 false,
		`[sh, -c, 'consume "$DISCOVERED_NAME"']`:                       false,
		`[sh, -c, "consume $(SHARDCTL_TASK) $(DISCOVERED_PARTITION)"]`: false, // neither holds shell syntax
		`[sh, script, $(DISCOVERED_NAME)]`:                             false,
		`[consume, -c, $(DISCOVERED_NAME)]`:                            false,
		`[sh, -c, 'consume "$NAME"'], env: {NAME: $(DISCOVERED_NAME)}`: false,
	} {
		s := loadText(t, discoverHead+"    template:\n      exec: {command: "+command+"}\n")
		if got := len(s.Warnings) == 1; got != warned || len(s.Warnings) > 1 {
			t.Errorf("%s: warnings %v, want one: %t", command, s.Warnings, warned)
		}
		for _, w := range s.Warnings {
			if w.Line != 6 || !strings.HasPrefix(w.Field, "groups[0].template.exec.command[") {
				t.Errorf("%s: %v, want its place", command, w)
			}
		}
	}
}

// Nor is it to be read as code of another interpreter, or as JSON.
func TestWarnsOfNamesInCode(t *testing.T) {
	for template, warned := range map[string]bool{
		`exec: {command: [python3, -c, "f('$(DISCOVERED_NAME)')"]}`:              true,
		`exec: {command: [/usr/bin/python3.12, -Ic, "f('$(DISCOVERED_NAME)')"]}`: true,
		`exec: {command: [env, A=b, python, -c, "f('$(DISCOVERED_NAME)')"]}`:     true,
		`exec: {command: [perl, -ne, "print '$(DISCOVERED_NAME)'"]}`:             true,
		`exec: {command: [node, "--eval=f('$(DISCOVERED_NAME)')"]}`:              true,
		`exec: {command: [psql, -d, x, -c, "select '$(DISCOVERED_NAME)'"]}`:      true,
		`exec: {command: [psql, -c, "select '$(DISCOVERED_NAME)'", x]}`:          true,
		`exec: {command: [mysql, "-eselect '$(DISCOVERED_NAME)'"]}`:              true,
		`exec: {command: [awk, -v, "x=$(DISCOVERED_NAME)", "{print x}"]}`:        false,
		`exec: {command: [awk, -F, ":", "/$(DISCOVERED_NAME)/"]}`:                true,
		`exec: {command: [sed, -n, "s/x/$(DISCOVERED_NAME)/"]}`:                  true,
		`exec: {command: [sed, -e, "s/x/y/", $(DISCOVERED_NAME)]}`:               false,
		`exec: {command: [jq, --arg, x, $(DISCOVERED_NAME), ".a == $x"]}`:        false,
		`exec: {command: [jq, ".$(DISCOVERED_NAME)"]}`:                           true,
		`exec: {command: [ssh, -p, "22", host, consume, $(DISCOVERED_NAME)]}`:    true,
		`exec: {command: [ssh, $(DISCOVERED_NAME), date]}`:                       false,
		`exec: {command: [python3, consume.py, -c, $(DISCOVERED_NAME)]}`:         false,
		`exec: {command: [python3, -c, "f()", $(DISCOVERED_NAME)]}`:              false,
		`exec: {command: [consume, -e, $(DISCOVERED_NAME)]}`:                     false,
		`http: {url: "http://a/", body: '{"topic": "$(DISCOVERED_NAME)"}'}`:      true,
		`http: {url: "http://a/", body: "topic $(DISCOVERED_NAME)"}`:             false,
		`http: {url: "http://a/", body: '{"topic": "$(SHARDCTL_TASK)"}'}`:        false,
		`http: {url: "http://a/", json: {topic: $(DISCOVERED_NAME)}}`:            false,
	} {
		s := loadText(t, discoverHead+"    template:\n      "+template+"\n")
		if got := len(s.Warnings) == 1; got != warned || len(s.Warnings) > 1 {
			t.Errorf("%s: warnings %v, want one: %t", template, s.Warnings, warned)
		}
	}
}

func TestTemplateMakesTasks(t *testing.T) {
	d := loadText(t, discoverHead+`    defaults: {stop: {timeout: 3s}}
    template:
      labels: {team: core, app: x}
      weight: 2
      exec: {command: [consume, $(DISCOVERED_NAME)]}
`).Groups[0].Discover
	if d.Interval != settings.DefaultInterval || d.Grace != settings.DefaultGrace || d.Limit != settings.DefaultLimit {
		t.Errorf("defaults are %v %v %d", d.Interval, d.Grace, d.Limit)
	}
	made, err := d.Template.Tasks([]discover.Found{
		{Name: "a/b"}, {Name: "c", Labels: map[string]string{"team": "blue"}, Weight: 7},
	})
	if err != nil || len(made) != 2 {
		t.Fatal(made, err)
	}
	first, second := made[0], made[1]
	if first.Name != "a_2Fb" || first.Group != "g" || first.Discovered != (tasks.Discovered{Name: "a/b"}) ||
		first.Weight != 2 || first.Stop.Timeout != 3*time.Second || first.Labels["team"] != "core" {
		t.Errorf("the first is %+v", first)
	}
	if second.Weight != 7 || second.Labels["team"] != "blue" || second.Labels["app"] != "x" {
		t.Errorf("what was found does not win over the template: %+v", second)
	}
	if command := first.Runner.(exec.Runner).Command; command[1] != "$(DISCOVERED_NAME)" {
		t.Errorf("a text of what runs is not as it is written: %q", command)
	}
}

// One name for which a field is wrong takes no other task away, and is reported.
func TestTemplateRefusesSome(t *testing.T) {
	d := loadText(t, discoverHead+`    template:
      labels: {of: $(DISCOVERED_NAME), task: $(SHARDCTL_TASK)}
      exec: {command: [a]}
`).Groups[0].Discover
	found := []discover.Found{{Name: "a"}, {Name: "b c"}, {Name: "d"}, {Name: "e f"}, {Name: "g"}}
	for range 2 { // what was wrong once is not remembered
		made, err := d.Template.Tasks(found)
		if len(made) != 3 || made[0].Labels["of"] != "a" || made[1].Labels["of"] != "d" ||
			made[2].Labels["task"] != "g" {
			t.Errorf("made %+v", made)
		}
		want := `no task can be made for "b c": a.yaml:6:20: groups[0].template.labels.of: what $(DISCOVERED_NAME) ` +
			"holds is not allowed"
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "(and for 1 more)") {
			t.Errorf("refused with %v", err)
		}
	}
}

// The hash of a list is that of who is asked and of the template, not of what was found.
func TestHashOfDiscover(t *testing.T) {
	hash := func(text string) string { return loadText(t, text).Groups[0].Hash }
	const template = "    template: {exec: {command: [a]}}\n"
	base := hash(discoverHead + template)
	if again := hash(discoverHead + "    # other words\n" + template); again != base {
		t.Error("a comment changes the hash")
	}
	for what, text := range map[string]string{
		"another template": discoverHead + "    template: {exec: {command: [b]}}\n",
		"another file":     strings.Replace(discoverHead, "path: a", "path: b", 1) + template,
		"another interval": strings.Replace(discoverHead, "}}", "}, interval: 5s}", 1) + template,
		"defaults":         discoverHead + "    defaults: {weight: 3}\n" + template,
	} {
		if hash(text) == base {
			t.Errorf("%s has the same hash", what)
		}
	}
}

func TestWithDiscovered(t *testing.T) {
	s := loadText(t, discoverHead+"    template: {exec: {command: [a]}}\n"+
		"    tasks: [{name: own, exec: {command: [a]}}]\n")
	more := s.WithDiscovered(map[string][]tasks.Task{"g": {{Identity: tasks.Identity{Group: "g", Name: "found"}}}})
	if len(more.Groups[0].Tasks) != 2 || len(s.Groups[0].Tasks) != 1 || more.Groups[0].Hash != s.Groups[0].Hash {
		t.Errorf("tasks are %+v, and were %+v", more.Groups[0].Tasks, s.Groups[0].Tasks)
	}
}
