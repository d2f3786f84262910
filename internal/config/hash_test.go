package config

import (
	"path/filepath"
	"strings"
	"testing"
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
