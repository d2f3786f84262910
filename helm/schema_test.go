package helm

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

var update = flag.Bool("update", false, "write shardctl/values.schema.json")

const chartSchema = "shardctl/values.schema.json"

// What Helm checks values against must be what the program checks its configuration against.
func TestSchemaOfValuesIsUpToDate(t *testing.T) {
	want := valuesSchema(t)
	if *update {
		if err := os.WriteFile(chartSchema, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(chartSchema)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf(
			"%s is not what values.schema.base.json and config/shardctl.schema.json make: run go test ./helm -update",
			chartSchema,
		)
	}
}

// valuesSchema puts the configuration's schema into the one of the values. Draft 7 is what every Helm 3 reads, so
// definitions are renamed; what both drafts call the same is left as it is.
func valuesSchema(t *testing.T) []byte {
	t.Helper()
	base, err := os.ReadFile("values.schema.base.json")
	if err != nil {
		t.Fatal(err)
	}
	schema := object(t, base)
	own, err := os.ReadFile("../config/shardctl.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	program := object(t, bytes.ReplaceAll(own, []byte(`"#/$defs/`), []byte(`"#/definitions/config.`)))
	definitions := schema["definitions"].(map[string]any)
	for name, definition := range program["$defs"].(map[string]any) {
		definitions["config."+name] = definition
	}
	for _, key := range []string{"$schema", "$id", "$defs", "title", "required"} {
		delete(program, key) // what is required the chart fills in
	}
	definitions["config"] = program
	// A pattern does not look at numbers, and Helm has none but numbers where the program sees text. Of durations, 0 is
	// the only one without a unit.
	duration := definitions["config.duration"].(map[string]any)
	duration["minimum"], duration["maximum"] = 0, 0

	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func object(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(valuesSchema(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("values.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("values.schema.json")
}

func TestSchemaRefusesByName(t *testing.T) {
	schema := compiled(t)
	for name, c := range map[string]struct{ values, want string }{
		"top level":      {`replicaCuont: 3`, "replicaCuont"},
		"second level":   {`image: {tga: x}`, "tga"},
		"an application": {`app: {image: {title: x}}`, "title"},
		"in config":      {`config: {leese: {}}`, "leese"},
		"in a group":     {`config: {groups: [{name: a, tsaks: []}]}`, "tsaks"},
		"in a task":      {`config: {groups: [{name: a, tasks: [{name: b, exec: {comand: [x]}}]}]}`, "comand"},
		"a bad value":    {`config: {groups: [{name: a, cap: many}]}`, "/config/groups/0/cap"},
		"no unit":        {`config: {lease: {duration: 20}}`, "/config/lease/duration"},
		"a bad number":   {`replicaCount: three`, "/replicaCount"},
		"a file's name":  {`configFiles: {notes.txt: hello}`, "notes.txt"},
		"an override":    {`prometheusRule: {rules: {ShardctlStoreSlow: {treshold: 1}}}`, "treshold"},
	} {
		t.Run(name, func(t *testing.T) {
			err := schema.Validate(values(t, c.values))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want an error with %s", c.values, err, c.want)
			}
		})
	}
}

// Every field that the program knows is one that the chart lets through.
func TestSchemaTakesEveryField(t *testing.T) {
	full, err := os.ReadFile("../config/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled(t).Validate(map[string]any{"config": values(t, string(full))}); err != nil {
		t.Errorf("config/full.yaml as the value config: %v", err)
	}
}

// What the README shows can be typed in.
func TestSchemaTakesTheReadme(t *testing.T) {
	text, err := os.ReadFile("shardctl/README.md.gotmpl")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the README shows no values")
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if err := compiled(t).Validate(values(t, block)); err != nil {
			t.Errorf("%s\n%v", block, err)
		}
	}
}

// Every value has a place in the schema, and none is there that values.yaml does not describe.
func TestSchemaNamesTheValues(t *testing.T) {
	text, err := os.ReadFile("shardctl/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defaults := values(t, string(text)).(map[string]any)
	if err := compiled(t).Validate(defaults); err != nil {
		t.Errorf("values.yaml: %v", err)
	}
	schema := object(t, valuesSchema(t))
	for name := range schema["properties"].(map[string]any) {
		if _, ok := defaults[name]; !ok && name != "global" {
			t.Errorf("the schema has %s, which values.yaml has not", name)
		}
	}
}

// values reads YAML as Helm does: by way of JSON.
func values(t *testing.T, text string) any {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
