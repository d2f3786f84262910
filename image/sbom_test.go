//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readSBOM(t *testing.T, b *built, p platform) *cdx.BOM {
	t.Helper()
	var bom cdx.BOM
	data := readFile(t, filepath.Join(b.dir, "sbom-"+p.arch+".cdx.json"))
	if err := cdx.NewBOMDecoder(bytes.NewReader(data), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	return &bom
}

// The SBOM is CycloneDX by the schema of the specification.
func TestSBOMSchema(t *testing.T) {
	b := whole(t)
	schema := cycloneDX(t)
	for _, p := range supported {
		var document map[string]any
		if err := json.Unmarshal(readFile(t, filepath.Join(b.dir, "sbom-"+p.arch+".cdx.json")), &document); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		// The schema can say no.
		document["specVersion"] = 16
		if schema.Validate(document) == nil {
			t.Error("the schema takes anything")
		}
	}
}

// cycloneDX is the specification's schema, which comes with the library.
func cycloneDX(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir := strings.TrimSpace(output(
		t, exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go"),
	))
	const base = "http://cyclonedx.org/schema/"
	compiler := jsonschema.NewCompiler()
	for name, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json",
		"jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(readFile(t, filepath.Join(dir, "schema", file))))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(base+name, resource); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile(base + "bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// The SBOM lists what the source says is linked in, no more and no less.
func TestSBOMListsModules(t *testing.T) {
	b := whole(t)
	for _, p := range supported {
		list := exec.CommandContext(
			t.Context(), "go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}{{end}}{{end}}", "./cmd/shardctl",
		)
		list.Dir = b.tree
		list.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0")
		want := strings.Fields(output(t, list))
		slices.Sort(want)
		want = slices.Compact(want)

		var got []string
		bom := readSBOM(t, b, p)
		for _, c := range *bom.Components {
			if c.Type != cdx.ComponentTypeLibrary || c.Name == "std" {
				continue
			}
			got = append(got, c.Name+"@"+c.Version)
			if c.Hashes == nil || len(*c.Hashes) != 1 {
				t.Errorf("%s: %s has no hash", p, c.Name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || len(got) < 2 {
			t.Errorf("%s: modules (-go list +SBOM)\n%s", p, diff)
		}
	}
}

func TestSBOMNamesTheProgram(t *testing.T) {
	b := whole(t)
	for _, p := range supported {
		bom := readSBOM(t, b, p)
		if bom.SerialNumber != "" || bom.Metadata.Timestamp != testCreated {
			t.Errorf(
				"%s: serial number %q, time %q: not of the source alone", p, bom.SerialNumber, bom.Metadata.Timestamp,
			)
		}
		main := bom.Metadata.Component
		want := "pkg:golang/github.com/shardctl/shardctl@" + testVersion + "?goarch=" + p.arch + "&goos=linux"
		if main.PackageURL != want {
			t.Errorf("%s: the program is %s, want %s", p, main.PackageURL, want)
		}
		all := files(t, platformImage(t, b.index, p))
		if diff := cmp.Diff(hashes(all["/shardctl"].data), main.Hashes); diff != "" {
			t.Errorf("%s: the program's hash (-image +SBOM)\n%s", p, diff)
		}
		i := slices.IndexFunc(*bom.Components, func(c cdx.Component) bool { return c.Name == "std" })
		if i < 0 || !strings.HasPrefix((*bom.Components)[i].PackageURL, "pkg:golang/std@1.") {
			t.Errorf("%s: the standard library is not listed", p)
		}
		i = slices.IndexFunc(*bom.Components, func(c cdx.Component) bool { return c.Description == bundlePath })
		if i < 0 {
			t.Fatalf("%s: the certificates are not listed", p)
		}
		certs := (*bom.Components)[i]
		if diff := cmp.Diff(hashes(all[bundlePath].data), certs.Hashes); diff != "" ||
			!strings.HasPrefix(certs.PackageURL, "pkg:golang/"+bundleModule+"@v") {
			t.Errorf("%s: the certificates are %s (-image +SBOM)\n%s", p, certs.PackageURL, diff)
		}
	}
}
