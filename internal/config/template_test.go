package config

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/kinds"
)

// Whoever names a topic chooses no file: a name that leads out of the directory that is written makes no task, and the
// others are made all the same.
func TestDiscoveredNamesChooseNoFile(t *testing.T) {
	const bad = "../x a/b .. . /etc/passwd x/.. a..b"
	for _, c := range []struct{ template, field string }{
		{`exec: {command: [date], dir: "/data/$(DISCOVERED_NAME)"}`, "exec.dir"},
		{`exec: {command: [date], dir: $(DISCOVERED_NAME:-x)}`, "exec.dir"},
		{`exec: {command: ["./bin/$(DISCOVERED_NAME)", x]}`, "exec.command[0]"},
		{`{http: {url: "http://a/", tokenFile: "/secrets/$(DISCOVERED_NAME)"}, every: 5s}`, "http.tokenFile"},
		{`{http: {url: "https://a/", tls: {caFile: "/ca/$(DISCOVERED_NAME)"}}, every: 5s}`, "http.tls.caFile"},
		{`exec: {command: [date, $(DISCOVERED_NAME)], dir: "/data/$(SHARDCTL_TASK)"}`, ""},
		{`exec: {command: [date], env: {DIR: "/data/$(DISCOVERED_NAME)"}, dir: "/data/$$(DISCOVERED_NAME)"}`, ""},
		{`{http: {url: "http://a/$(DISCOVERED_NAME)"}, every: 5s}`, ""},
	} {
		text := discoverHead + "    template:\n      " + c.template + "\n"
		if strings.HasPrefix(c.template, "{") {
			text = discoverHead + "    template: " + c.template + "\n"
		}
		template := loadText(t, text).source.groups[0].template
		names := []discover.Found{{Name: "good"}, {Name: "also.good"}, {Name: ".hidden"}}
		for name := range strings.FieldsSeq(bad) {
			names = append(names, discover.Found{Name: name})
			_, err := template.task(discover.Found{Name: name})
			if (err == nil) != (c.field == "") || err != nil && !strings.Contains(err.Error(), c.field+": ") {
				t.Errorf("%s: %q: %v, want %s", c.template, name, err, c.field)
			}
		}
		want := 3
		if c.field == "" {
			want = len(names)
		}
		if made, refused := template.Tasks(names); len(made) != want || (refused == nil) != (c.field == "") {
			t.Errorf("%s: %d tasks, %v; want %d", c.template, len(made), refused, want)
		}
	}
}

var aboutFiles = regexp.MustCompile(`\b([Ff]ile|[Dd]irectory|Its content is sent)\b`)

// Every field of a task that is about a file, as the schema of all kinds describes it, is one that namesFile knows.
func TestFieldsThatNameFilesAreKnown(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(Schema(kinds.All(), kinds.Listers())), &schema); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case map[string]any:
			about, _ := v["description"].(string)
			if v["$ref"] == "#/$defs/text" && name != "" {
				known := namesFile(&decode.Node{Key: name, Shape: decode.Scalar})
				if aboutFiles.MatchString(about) && !known && name != "password" { // which $(file:PATH) may hold
					t.Errorf("%s is about a file (%s), and nothing is refused for it", name, about)
				}
				found[name] = found[name] || known
			}
			for key, below := range v {
				walk(key, below)
			}
		case []any:
			for _, below := range v {
				walk("", below)
			}
		}
	}
	walk("", schema)
	for _, name := range []string{
		"dir", "path", "tokenFile", "caFile", "passwordFile", "credsFile", "nkeyFile", "keyFile",
	} {
		if !found[name] {
			t.Errorf("%s is no field of the schema, or is not known", name)
		}
	}
	list := &decode.Node{Key: "command", Shape: decode.List}
	for i, want := range []bool{true, false} {
		if namesFile(&decode.Node{Parent: list, Index: i, Shape: decode.Scalar}) != want {
			t.Errorf("word %d of a command: %v", i, !want)
		}
	}
}
