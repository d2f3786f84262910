package status

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

type openAPIDoc struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Parameters  []struct {
			Name, In string
		}
		Responses map[string]any `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]struct {
			Required   []string       `json:"required"`
			Properties map[string]any `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

func readOpenAPI(t *testing.T) openAPIDoc {
	t.Helper()
	return decode[openAPIDoc](t, get(t, New(Config{Source: &Board{}}), "/openapi.json"))
}

func TestEveryRouteIsDescribed(t *testing.T) {
	doc := readOpenAPI(t)
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("version %s", doc.OpenAPI)
	}
	routes := slices.Sorted(maps.Keys(declaredRoutes()))
	if got := slices.Sorted(maps.Keys(doc.Paths)); !slices.Equal(got, routes) {
		t.Errorf("described %v\nserved    %v", got, routes)
	}
	ids := map[string]bool{}
	for path, methods := range doc.Paths {
		op, ok := methods["get"]
		if !ok || len(methods) != 1 || op.OperationID == "" || ids[op.OperationID] || op.Responses["200"] == nil {
			t.Errorf("%s: %+v", path, methods)
		}
		ids[op.OperationID] = true
		var inPath []string
		for _, p := range op.Parameters {
			if p.In == "path" {
				inPath = append(inPath, "{"+p.Name+"}")
			}
		}
		if strings.Count(path, "{") != len(inPath) ||
			slices.ContainsFunc(inPath, func(p string) bool { return !strings.Contains(path, p) }) {
			t.Errorf("%s: path parameters %v", path, inPath)
		}
	}
}

func TestParametersAreThoseThatListsTake(t *testing.T) {
	doc := readOpenAPI(t)
	check := func(path string, params []string) {
		var got []string
		for _, p := range doc.Paths[path]["get"].Parameters {
			got = append(got, p.Name)
		}
		if want := append(slices.Clone(params), "limit", "continue", "watch"); !slices.Equal(got, want) {
			t.Errorf("%s: described %v, takes %v", path, got, want)
		}
	}
	check(taskCollection().path, taskCollection().params)
	check(groupCollection().path, groupCollection().params)
	check(instanceCollection().path, instanceCollection().params)
	check(lockCollection().path, lockCollection().params)
}

func TestSchemasHaveTheFieldsOfTheTypes(t *testing.T) {
	doc := readOpenAPI(t)
	types := map[string]any{
		"Status": Status{}, "Store": Store{}, "Group": Group{}, "Problem": Problem{}, "Task": Task{},
		"Instance": Instance{},
		"Lock":     Lock{}, "Event": Event{}, "Error": Error{}, "FieldError": FieldError{},
		"TaskList": List[Task]{}, "GroupList": List[Group]{}, "InstanceList": List[Instance]{},
		"LockList":  List[Lock]{},
		"EventList": List[Event]{},
	}
	if len(types) != len(doc.Components.Schemas) {
		t.Errorf("schemas: %v", slices.Sorted(maps.Keys(doc.Components.Schemas)))
	}
	for name, value := range types {
		var want, required []string
		for field := range reflect.TypeOf(value).Fields() {
			tag, ok := field.Tag.Lookup("json")
			if !ok {
				continue
			}
			field, options, _ := strings.Cut(tag, ",")
			want = append(want, field)
			if options == "" {
				required = append(required, field)
			}
		}
		slices.Sort(want)
		schema := doc.Components.Schemas[name]
		if got := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, want) {
			t.Errorf("%s: described %v\nfields of the type %v", name, got, want)
		}
		if !slices.Equal(schema.Required, required) {
			t.Errorf("%s: required %v, always there %v", name, schema.Required, required)
		}
	}
}

// What is answered must be as described, in types too.
func TestAnswersFitTheirSchemas(t *testing.T) {
	raw, err := jsonschema.UnmarshalJSON(strings.NewReader(string(openAPI)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", raw); err != nil {
		t.Fatal(err)
	}
	store := &eventStore{}
	store.add("1")
	h := New(Config{Source: boardWith(sample(3)), Events: store})
	for path, name := range map[string]string{
		"/api/v1/status": "Status", "/api/v1/tasks": "TaskList", "/api/v1/groups": "GroupList",
		"/api/v1/events":    "EventList",
		"/api/v1/instances": "InstanceList", "/api/v1/locks": "LockList", "/api/v1/instances/a": "Instance",
		"/api/v1/tasks/topics/topic-0001": "Task", "/nowhere": "Error", "/api/v1/tasks?limit=0": "Error",
	} {
		schema, err := compiler.Compile("openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var answer any
		if err := json.Unmarshal(get(t, h, path).Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(answer); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func declaredRoutes() map[string]endpoint {
	c := Config{Source: &Board{}}.withDefaults()
	return routes(c, newServer(c))
}
