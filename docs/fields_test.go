package docs_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/tasks"
)

var update = flag.Bool("update", false, "write the tables of fields and of variables")

// The table of fields on the page of a source is what its schema says.
func TestFieldsOfSources(t *testing.T) {
	for _, source := range kinds.Sources() {
		made(t, "sources/"+source.Name()+".md", "fields", tableOf(t, source.Schema()))
	}
}

// The tables of a task's fields are what their list says.
func TestFieldsOfTasks(t *testing.T) {
	all := kind.FieldsOf(&tasks.Task{}, nil, nil)
	for mark, with := range map[string]field.With{
		"fields of tasks": field.Any, "fields without ticks": field.Owned, "fields with ticks": field.Ticked,
	} {
		list := slices.DeleteFunc(slices.Clone(all), func(f field.Field) bool { return f.With != with })
		made(t, "configuration.md", mark, tableOf(t, list.Schema("")))
	}
}

// The tables of settings, and of the fields of a group, are what their lists say.
func TestFieldsOfSettings(t *testing.T) {
	replica := slices.DeleteFunc(onPage(settings.FieldsOf(&settings.Settings{}, nil)), func(f field.Field) bool {
		return f.Name == "groups"
	})
	made(t, "configuration.md", "fields of the replica", tableOf(t, replica.Schema("")))
	group := onPage(settings.GroupFieldsOf(&settings.Group{}, nil))
	for i := range group {
		group[i].Name = "groups[]." + group[i].Name
		if group[i].Name == "groups[].defaults" {
			group[i].Value = field.Elsewhere{} // the fields of a task have tables of their own
		}
	}
	made(t, "configuration.md", "fields of groups", tableOf(t, group.Schema("")))
}

// onPage is a list with what the page says of its fields.
func onPage(list field.List) field.List {
	list = slices.Clone(list)
	for i, f := range list {
		list[i].Doc = cmp.Or(f.Page, f.Doc)
		if below, is := f.Value.(field.Mapping); is {
			below.Fields = onPage(below.Fields)
			list[i].Value = below
		}
	}
	return list
}

// tableOf is the table of the fields of a mapping.
func tableOf(t *testing.T, schema string) string {
	t.Helper()
	var n yaml.Node // JSON is YAML, and a node keeps the order
	if err := yaml.Unmarshal([]byte(schema), &n); err != nil {
		t.Fatal(err)
	}
	return "| field | default | meaning, and what is allowed |\n|---|---|---|\n" + rows("", n.Content[0])
}

// The table of a task's own variables is what the program has of them.
func TestVariablesOfTasks(t *testing.T) {
	table := "| variable | value |\n|---|---|\n"
	for _, own := range variables.All() {
		about := own.Doc
		if of, _, _ := strings.Cut(string(own.Of), ":"); of != "" {
			about += "; only of " + of
		}
		table += fmt.Sprintf("| `%s` | %s |\n", own.Name, about)
	}
	made(t, "configuration.md", "variables", table)
}

// made holds the table between two marks of a page against what the program makes of it.
func made(t *testing.T, file, mark, want string) {
	t.Helper()
	begin, end := "<!-- "+mark+": begin -->\n", "<!-- "+mark+": end -->\n"
	before, rest, _ := strings.Cut(read(t, file), begin)
	table, after, marked := strings.Cut(rest, end)
	switch {
	case !marked:
		t.Errorf("%s has no lines %s and %s", file, begin, end)
	case *update:
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	case table != want:
		t.Errorf("%s: the table of %s is not what the program makes: run go test ./docs -run 'Fields|Variables' -update",
			file, mark)
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
		if is := member(field, "default").Value; is != "" && unset == "" {
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
		if about != "" || len(member(field, "properties").Content) == 0 { // a section may say nothing of itself
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, standard, about)
		}
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
