package docs_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/internal/kinds"
)

var update = flag.Bool("update", false, "write the tables of fields")

const (
	fieldsBegin = "<!-- fields: begin -->\n"
	fieldsEnd   = "<!-- fields: end -->\n"
)

// The table of fields on the page of a source is what its schema says.
func TestFieldsOfSources(t *testing.T) {
	for _, source := range kinds.Sources() {
		file := "sources/" + source.Name() + ".md"
		before, rest, _ := strings.Cut(read(t, file), fieldsBegin)
		table, after, marked := strings.Cut(rest, fieldsEnd)
		var schema yaml.Node // JSON is YAML, and a node keeps the order
		if err := yaml.Unmarshal([]byte(source.Schema()), &schema); err != nil {
			t.Fatal(err)
		}
		want := "| field | default | meaning, and what is allowed |\n|---|---|---|\n" + rows("", schema.Content[0])
		switch {
		case !marked:
			t.Errorf("%s has no lines %s and %s", file, fieldsBegin, fieldsEnd)
		case *update:
			if err := os.WriteFile(file, []byte(before+fieldsBegin+want+fieldsEnd+after), 0o600); err != nil {
				t.Fatal(err)
			}
		case table != want:
			t.Errorf("%s: its table is not what the fields of the source make: run go test ./docs -run Fields -update", file)
		}
	}
}

// rows are those of the fields of a mapping, and of the mappings in it.
func rows(below string, schema *yaml.Node) string {
	var b strings.Builder
	properties := member(schema, "properties")
	for i := 0; i < len(properties.Content); i += 2 {
		name, field := below+properties.Content[i].Value, properties.Content[i+1]
		about, unset, _ := strings.Cut(member(field, "description").Value, "Default: ")
		about, required := strings.CutSuffix(about, "Required.")
		standard := strings.TrimSuffix(unset, ".")
		if is := member(field, "default").Value; is != "" {
			standard = "`" + is + "`"
		}
		switch in := strings.TrimSuffix(below, "."); {
		case required && in != "":
			standard = "required with `" + in + "`"
		case required:
			standard = "required"
		case standard == "":
			standard = "none"
		}
		about = strings.TrimSuffix(strings.TrimSpace(about), ".")
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, standard, about)
		b.WriteString(rows(name+".", field))
	}
	return b.String()
}

// member is a member of an object; an empty one where it has none of that name.
func member(object *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return object.Content[i+1]
		}
	}
	return &yaml.Node{}
}
