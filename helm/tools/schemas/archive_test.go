package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestADefinitionIsKeptOnceUntilItChanges(t *testing.T) {
	t.Parallel()
	one, two := schema{"type": "string"}, schema{"type": "integer"}
	versions := []string{"1.9", "1.10", "1.11", "1.12"}
	each := []definitions{{"a": one, "b": one}, {"a": one, "b": two}, {"a": one}, {"a": one, "b": two}}
	kept := newArchive()
	for i, version := range versions {
		kept.add(version, "module@"+version, each[i])
	}
	if len(kept.Definitions["a"]) != 1 || len(kept.Definitions["b"]) != 4 {
		t.Errorf("a changed never and b three times: %v", kept.Definitions)
	}

	file := filepath.Join(t.TempDir(), "schemas.json")
	if err := kept.save(file); err != nil {
		t.Fatal(err)
	}
	read, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, version := range versions {
		if got := read.at(version); !reflect.DeepEqual(got, each[i]) {
			t.Errorf("%s: got %v, want %v", version, got, each[i])
		}
	}
}

// The file in the repository holds every kind for every version, and everything that they refer to.
func TestTheKeptSchemasAreWhole(t *testing.T) {
	t.Parallel()
	kept, err := load("schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, source := range kubernetesSources {
		if err := kept.write(dir, source.version); err != nil {
			t.Fatal(err)
		}
		all := kept.at(source.version)
		for name, made := range all {
			for _, reference := range references(made) {
				if all[reference] == nil {
					t.Errorf("%s: %s refers to %s, which is not there", source.version, name, reference)
				}
			}
		}
		for _, name := range kubernetesKinds {
			if all[name] == nil {
				t.Errorf("%s: no %s", source.version, name)
			}
		}
		for _, file := range []string{
			"deployment-apps-v1", "service-v1", "poddisruptionbudget-policy-v1", "servicemonitor-monitoring-v1",
		} {
			text, err := os.ReadFile(filepath.Join(dir, source.version, file+".json"))
			if err != nil || !json.Valid(text) {
				t.Errorf("%s: %s is not there for kubeconform: %v", source.version, file, err)
			}
		}
	}
}

// A field that came with a version is unknown before it.
func TestFieldsHaveTheirVersion(t *testing.T) {
	t.Parallel()
	kept, err := load("schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]bool{"1.29": false, "1.33": false, "1.34": true, "1.36": true} {
		pod := kept.at(version)["io.k8s.api.core.v1.PodSpec"]["properties"].(schema)
		if got := pod["hostnameOverride"] != nil; got != want {
			t.Errorf("hostnameOverride of a pod known to %s: %v, want %v", version, got, want)
		}
	}
}
