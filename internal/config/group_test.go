package config

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest/memsource"
)

func TestHash(t *testing.T) {
	hash := func(text string) string {
		t.Helper()
		return load(t, text).Groups[0].Hash
	}
	base := group("      - {name: 'a-{1..3}', exec: {command: [a, $(WORD)]}}\n      - {name: b, callback: f}\n")
	inGroup := func(text, line string) string {
		return strings.Replace(text, "    tasks:", "    "+line+"\n    tasks:", 1)
	}
	for what, text := range map[string]string{
		"order of tasks": group(
			"      - {callback: f, name: b}\n      - {exec: {command: [a, $(WORD)]}, name: 'a-{1..3}'}\n",
		),
		"comments, notes": group("      # x\n      - {name: 'a-{1..3}', exec: {command: [a, $(WORD)]}, x-note: " +
			"y}\n      - {name: b, callback: f}\n"),
		"cap":               inGroup(base, "cap: 3"),
		"lease":             base + "lease: {duration: 7s}\n",
		"field by defaults": inGroup(strings.Replace(base, "b, callback: f", "b", 1), "defaults: {callback: f}"),
	} {
		if hash(text) != hash(base) {
			t.Errorf("%s: another hash", what)
		}
	}
	for what, text := range map[string]string{
		"braces":   strings.Replace(base, "1..3", "1..4", 1),
		"names":    strings.Replace(base, "1..3", "1..$(NO:-4)", 1),
		"field":    strings.Replace(base, "callback: f", "callback: g", 1),
		"selector": inGroup(base, "instances: {selector: {a: b}}"),
		"default":  inGroup(base, "defaults: {weight: 2}"),
	} {
		if hash(text) == hash(base) {
			t.Errorf("%s: the same hash", what)
		}
	}
}

func TestHashIgnoresWhatVariablesHold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, group("      - {name: a, weight: $(N), labels: {l: $(N)}, exec: {command: [a, $(N)]}}\n"))
	var hashes []string
	for _, value := range []string{"1", "2"} {
		s, err := Load([]string{path}, optionsOf(func(name string) (string, bool) { return value, name == "N" }))
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, s.Groups[0].Hash)
	}
	if hashes[0] != hashes[1] {
		t.Error("the hash depends on a variable's value")
	}
}

// The weights of a group with subscriptions may follow their lag. Its other tasks have those that are declared, and
// lists that differ in it have different hashes.
func TestWeightFrom(t *testing.T) {
	const head = "store: {uri: 'sqlite:a.db'}\ngroups:\n  - name: g\n"
	const list = "    tasks:\n      - {name: a, mem: {topic: t}, deliver: {callback: f}}\n" +
		"      - {name: b, exec: {command: [b]}}\n"
	const found = "    discover: {file: {path: x}}\n    template: {mem: {topic: t}, deliver: {callback: f}}\n"
	read := func(text string) *Config {
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
	if plain.Groups[0].WeightFrom != settings.WeightDeclared || lag.Groups[0].WeightFrom != settings.WeightLag {
		t.Errorf("%q, %q", plain.Groups[0].WeightFrom, lag.Groups[0].WeightFrom)
	}
	if plain.Groups[0].Hash == lag.Groups[0].Hash || plain.Groups[0].Hash != declared.Groups[0].Hash {
		t.Error("hashes of lists")
	}
	g := &lag.Groups[0]
	if !g.Measures(&g.Tasks[0]) || g.Measures(&g.Tasks[1]) || plain.Groups[0].Measures(&g.Tasks[0]) {
		t.Error("which tasks are behind")
	}
	if s := read(head + "    weightFrom: $(FROM)\n" + found); s.Groups[0].WeightFrom != settings.WeightLag {
		t.Error("a group whose discovered tasks are subscriptions, by a variable")
	}
	reported := read(head + "    weightFrom: reported\n    tasks:\n      - {name: a, callback: f}\n" +
		"      - {name: b, exec: {command: [b]}}\n").Groups[0]
	if !reported.Measures(&reported.Tasks[0]) || reported.Measures(&reported.Tasks[1]) {
		t.Error("which tasks report a load")
	}
	cpu := read(head + "    weightFrom: cpu\n" + list).Groups[0]
	if cpu.Measures(&cpu.Tasks[0]) || !cpu.Measures(&cpu.Tasks[1]) {
		t.Error("whose processor time is measured")
	}
	const commands = "    discover: {file: {path: x}}\n    template: {exec: {command: [b]}}\n"
	if s := read(head + "    weightFrom: cpu\n" + commands); s.Groups[0].WeightFrom != settings.WeightCPU {
		t.Error("a group whose discovered tasks run commands")
	}
	var printed bytes.Buffer
	if err := lag.Print(&printed); err != nil || !strings.Contains(printed.String(), "weightFrom: lag") {
		t.Errorf("%v: %s", err, printed.String())
	}
}
