package status

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/pkg/api"
)

type operation struct {
	OperationID string `json:"operationId"`
	Parameters  []struct {
		Name, In string
	}
	RequestBody any            `json:"requestBody"`
	Responses   map[string]any `json:"responses"`
}

type openAPIDoc struct {
	OpenAPI    string                          `json:"openapi"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]struct {
			Pattern    string         `json:"pattern"`
			Required   []string       `json:"required"`
			Properties map[string]any `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

func readOpenAPI(t *testing.T) openAPIDoc {
	t.Helper()
	return decode[openAPIDoc](t, get(t, WithChanges(New(Config{Source: &Board{}}), ChangesOpen), "/openapi.json"))
}

// What is refused as a selector is not described as one, and the other way round.
func TestSelectorsAreDescribed(t *testing.T) {
	selector := readOpenAPI(t).Components.Schemas["Selector"]
	if selector.Pattern != selectorForm.String() {
		t.Errorf("described %s\nwant      %s", selector.Pattern, selectorForm)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(selectorForm.String()).Draw(t, "selector")
		if _, err := ParseSelector(text); err != nil {
			t.Error(err)
		}
	})
}

// A listener that only reads describes no changes, and all else as the other one does.
func TestReadersAreShownWhatCanBeRead(t *testing.T) {
	all, reads := readOpenAPI(t), decode[openAPIDoc](t, get(t, New(Config{Source: &Board{}}), "/openapi.json"))
	maps.DeleteFunc(
		all.Paths, func(_ string, methods map[string]operation) bool { return methods["get"].OperationID == "" },
	)
	if len(reads.Paths) == 0 || !reflect.DeepEqual(reads, all) {
		t.Errorf("described %v, want %v", slices.Sorted(maps.Keys(reads.Paths)), slices.Sorted(maps.Keys(all.Paths)))
	}
}

func TestEveryRouteIsDescribed(t *testing.T) {
	doc := readOpenAPI(t)
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("version %s", doc.OpenAPI)
	}
	routes := slices.Sorted(maps.Keys(declaredRoutes()))
	var reads []string
	ids := map[string]bool{}
	for path, methods := range doc.Paths {
		op, read := methods["get"]
		if read {
			reads = append(reads, path)
		} else {
			op = methods["post"] // what changes; package admin compares these paths
		}
		if len(methods) != 1 || op.OperationID == "" || ids[op.OperationID] || op.Responses["200"] == nil ||
			read != (op.RequestBody == nil) {
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
	if slices.Sort(reads); !slices.Equal(reads, routes) {
		t.Errorf("described %v\nserved    %v", reads, routes)
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
	check(overrideCollection().path, overrideCollection().params)
}

func TestSchemasHaveTheFieldsOfTheTypes(t *testing.T) {
	doc := readOpenAPI(t)
	types := map[string]any{
		"Status": api.Status{}, "Store": api.Store{}, "Group": api.Group{}, "Problem": api.Problem{},
		"Task":     api.Task{},
		"Instance": api.Instance{},
		"Lock":     api.Lock{}, "Event": api.Event{}, "Error": api.Error{}, "FieldError": api.FieldError{},
		"Stale":    api.One[api.Task]{},
		"TaskList": api.List[api.Task]{}, "GroupList": api.List[api.Group]{}, "InstanceList": api.List[api.Instance]{},
		"LockHolder": api.LockHolder{}, "LockWaiter": api.LockWaiter{},
		"LockList":  api.List[api.Lock]{},
		"EventList": api.List[api.Event]{}, "Run": api.Run{}, "RunList": api.List[api.Run]{},
		"Override": api.Override{}, "OverrideList": api.List[api.Override]{}, "Result": api.ChangeResult{},
		"Refusal":     api.Refusal{},
		"PlannedMove": api.PlannedMove{}, "Caller": api.Caller{}, "Discovery": api.Discovery{},
		"Weights": api.Weights{},
	}
	bodies := []string{
		"Change", "StandingChange", "MoveChange", "PinChange",
		"SelectedChange", "SelectedStandingChange", "SelectedMoveChange", "SelectedPinChange",
	}
	texts := []string{"Selector", "Pattern", "WatchEvent"}
	if len(types)+len(bodies)+len(texts) != len(doc.Components.Schemas) {
		t.Errorf("schemas: %v", slices.Sorted(maps.Keys(doc.Components.Schemas)))
	}
	for name, value := range types {
		want, required := jsonFields(value)
		slices.Sort(want)
		schema := doc.Components.Schemas[name]
		if got := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, want) {
			t.Errorf("%s: described %v\nfields of the type %v", name, got, want)
		}
		if !slices.Equal(schema.Required, required) {
			t.Errorf("%s: required %v, always there %v", name, schema.Required, required)
		}
	}
	// The body of a change is one type; which of its fields a request takes depends on the verb.
	described := map[string]bool{}
	for _, name := range bodies {
		for field := range doc.Components.Schemas[name].Properties {
			described[field] = true
		}
	}
	want, _ := jsonFields(api.ChangeRequest{})
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(described)); !slices.Equal(got, want) {
		t.Errorf("bodies of changes: described %v\nfields of the type %v", got, want)
	}
}

// jsonFields are the names of a type's fields in JSON, in order, and those that are never left out, as they are
// declared.
func jsonFields(value any) (all, always []string) {
	for field := range reflect.TypeOf(value).Fields() {
		if field.Anonymous { // its fields stand here in JSON
			inner, innerAlways := jsonFields(reflect.Zero(field.Type).Interface())
			all, always = append(all, inner...), append(always, innerAlways...)
			continue
		}
		tag, ok := field.Tag.Lookup("json")
		if !ok || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		all = append(all, name)
		if options == "" {
			always = append(always, name)
		}
	}
	return all, always
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
	s := sample(3)
	s.Tasks[0].Overrides = api.Overrides{
		{Kind: "pin", Scope: "task", Name: s.Tasks[0].Key, To: "zone=z1", At: api.Time{Time: epoch}},
	}
	s.Instances[0].Overrides = api.Overrides{{Kind: "drain", Scope: "instance", Name: "a", By: "ann", Reason: "kernel"}}
	s.Overrides = []api.Override{s.Tasks[0].Overrides[0], s.Instances[0].Overrides[0]}
	s.Overrides[1].Until = api.Millis(5)
	runs := fakeRuns{{Result: "Running"}, {Result: "Failed", EndedAt: api.Millis(5)}}
	h := New(Config{Source: boardWith(s), Events: store, Runs: runs})
	for path, name := range map[string]string{
		"/api/v1/status": "Status", "/api/v1/tasks": "TaskList", "/api/v1/groups": "GroupList",
		"/api/v1/events":         "EventList",
		"/api/v1/groups/topics?": "Stale", "/api/v1/instances/a?": "Stale",
		"/api/v1/tasks/topics/topic-0001?": "Stale",
		"/api/v1/instances":                "InstanceList", "/api/v1/locks": "LockList",
		"/api/v1/overrides": "OverrideList", "/api/v1/instances/a": "Instance",
		"/api/v1/groups/topics":                "Group",
		"/api/v1/whoami":                       "Caller",
		"/api/v1/tasks/topics/topic-0001/runs": "RunList",
		"/api/v1/tasks/topics/topic-0001":      "Task", "/nowhere": "Error", "/api/v1/tasks?limit=0": "Error",
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
