package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// archive is the file in the repository: every definition as it was from some version on, until the next entry.
type archive struct {
	// Sources are the modules from which the definitions were made.
	Sources     []string
	Definitions map[string][]entry
}

type entry struct {
	Since string `json:"since"`
	// Schema is null from the version on in which nothing refers to the definition any more.
	Schema schema `json:"schema"`
}

func newArchive(sources ...string) *archive {
	return &archive{Sources: sources, Definitions: map[string][]entry{}}
}

// add records all definitions of a version, which is newer than those before.
func (a *archive) add(version, module string, all definitions) {
	a.Sources = append(a.Sources, module)
	for name, made := range all {
		entries := a.Definitions[name]
		if len(entries) > 0 && reflect.DeepEqual(entries[len(entries)-1].Schema, made) {
			continue
		}
		a.Definitions[name] = append(entries, entry{version, made})
	}
	for name, entries := range a.Definitions {
		last := entries[len(entries)-1]
		if all[name] == nil && last.Schema != nil {
			a.Definitions[name] = append(entries, entry{version, nil})
		}
	}
}

// at gives the definitions as they are in a version.
func (a *archive) at(version string) definitions {
	all := definitions{}
	for name, entries := range a.Definitions {
		for _, entry := range entries {
			if newer(entry.Since, version) {
				break
			}
			all[name] = entry.Schema
		}
		if all[name] == nil {
			delete(all, name)
		}
	}
	return all
}

// newer says whether version a of Kubernetes, like 1.36, comes after version b.
func newer(a, b string) bool {
	return len(a) > len(b) || len(a) == len(b) && a > b
}

// save writes an entry a line, in the order of names: a new version of Kubernetes is a difference that can be read.
func (a *archive) save(file string) error {
	var text bytes.Buffer
	sources, err := json.MarshalIndent(a.Sources, "  ", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(&text, "{\n  \"sources\": %s,\n  \"definitions\": {", sources)
	for i, name := range slices.Sorted(maps.Keys(a.Definitions)) {
		fmt.Fprintf(&text, "%s\n    %q: [", strings.Repeat(",", min(i, 1)), name)
		for j, entry := range a.Definitions[name] {
			line, err := json.Marshal(entry)
			if err != nil {
				return err
			}
			fmt.Fprintf(&text, "%s\n      %s", strings.Repeat(",", min(j, 1)), line)
		}
		text.WriteString("\n    ]")
	}
	text.WriteString("\n  }\n}\n")
	return os.WriteFile(file, text.Bytes(), 0o644) //nolint:gosec // for everybody to read, like all of the repository
}

func load(file string) (*archive, error) {
	text, err := os.ReadFile(file) //nolint:gosec // named by whichever of them runs this
	if err != nil {
		return nil, err
	}
	kept := newArchive()
	if err := json.Unmarshal(text, kept); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return kept, nil
}

// write makes the directory of a version: all definitions in one file, and beside it a file for each kind that refers
// to it.
func (a *archive) write(dir, version string) error {
	dir = filepath.Join(dir, version)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	all := a.at(version)
	for name, made := range all {
		file, ok := made[gvk].(string)
		if !ok {
			continue
		}
		if err := writeJSON(
			filepath.Join(dir, file+".json"), schema{"$ref": "definitions.json" + refPrefix + name},
		); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(dir, "definitions.json"), schema{"definitions": all})
}

func writeJSON(file string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
