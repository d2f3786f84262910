package config

import (
	"bytes"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest/memsource"
)

// The weights of a group with subscriptions may follow their lag. Its other tasks have those that are declared, and
// lists that differ in it have different hashes.
func TestWeightFrom(t *testing.T) {
	const head = "store: {uri: 'sqlite:a.db'}\ngroups:\n  - name: g\n"
	const list = "    tasks:\n      - {name: a, mem: {topic: t}, deliver: {callback: f}}\n" +
		"      - {name: b, exec: {command: [b]}}\n"
	const found = "    discover: {file: {path: x}}\n    template: {mem: {topic: t}, deliver: {callback: f}}\n"
	read := func(text string) *Settings {
		t.Helper()
		path := t.TempDir() + "/a.yaml"
		write(t, path, text)
		opts := optionsOf(func(name string) (string, bool) { return "lag", name == "FROM" })
		opts.Kinds = memory(t, memsource.New())
		s, err := Load([]string{path}, opts)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	plain, lag := read(head+list), read(head+"    weightFrom: lag\n"+list)
	declared := read(head + "    weightFrom: declared\n" + list)
	if plain.Groups[0].WeightFrom != WeightDeclared || lag.Groups[0].WeightFrom != WeightLag {
		t.Errorf("%q, %q", plain.Groups[0].WeightFrom, lag.Groups[0].WeightFrom)
	}
	if plain.Groups[0].Hash == lag.Groups[0].Hash || plain.Groups[0].Hash != declared.Groups[0].Hash {
		t.Error("hashes of lists")
	}
	g := &lag.Groups[0]
	if !g.FollowsLag(&g.Tasks[0]) || g.FollowsLag(&g.Tasks[1]) || plain.Groups[0].FollowsLag(&g.Tasks[0]) {
		t.Error("which tasks follow the lag")
	}
	if s := read(head + "    weightFrom: $(FROM)\n" + found); s.Groups[0].WeightFrom != WeightLag {
		t.Error("a group whose discovered tasks are subscriptions, by a variable")
	}
	var printed bytes.Buffer
	if err := lag.Print(&printed); err != nil || !strings.Contains(printed.String(), "weightFrom: lag") {
		t.Errorf("%v: %s", err, printed.String())
	}
}
