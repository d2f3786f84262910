package status

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/api"
)

// schemas are those of types of package api, in the order in which they were met first.
type schemas struct {
	comments map[string]string // of "Type" and "Type.Field"
	list     object
}

// add describes the type of a value, and all types that it has. It returns what stands for it.
func (s *schemas) add(value any) object { return s.of(reflect.TypeOf(value)) }

// enums are the words that types of texts, and fields, may be.
func enums(name string) []string {
	switch name {
	case "TaskState":
		return names(api.TaskStates())
	case "InstanceState":
		return names(api.InstanceStates())
	case "LockKind":
		return names(api.LockKinds())
	case "Severity":
		return names([]api.Severity{api.SeverityError, api.SeverityWarning})
	case "Role":
		return names([]api.Role{api.RoleNone, api.RoleRead, api.RoleOperate, api.RoleAdmin})
	case "Verb":
		return everyVerb()
	case "Run.Result":
		return names([]record.RunResult{
			record.RunRunning, record.RunSucceeded, record.RunFailed, record.RunTimedOut, record.RunInterrupted,
			record.RunSkipped,
		})
	case "Override.Kind":
		return names(everyKind())
	case "Override.Scope":
		return names([]record.Scope{record.ScopeTask, record.ScopeGroup, record.ScopeInstance})
	default:
		return nil
	}
}

// everyVerb is those of all changes, in alphabetical order.
func everyVerb() []string {
	return names(slices.Sorted(slices.Values(verbs.Names(func(verbs.Verb) bool { return true }))))
}

// everyKind is those of the overrides of all verbs.
func everyKind() (kinds []record.OverrideKind) {
	for _, v := range verbs.All() {
		if !slices.Contains(kinds, v.Kind) {
			kinds = append(kinds, v.Kind)
		}
	}
	return kinds
}

// of is what stands for a type: its schema, or the name of one.
func (s *schemas) of(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[api.Time]():
		return object{{"type", []string{"string", "null"}}, {"format", "date-time"}}
	case strings.HasPrefix(t.Name(), "One["):
		item, _ := t.FieldByName("Item")
		s.named("Stale", "What an answer about one object has beside the fields of the object.", object{
			{"stale", described(object{{"type", "boolean"}}, s.comments["List.Stale"])},
		})
		return object{{"allOf", []object{s.of(item.Type), ref("schemas", "Stale")}}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		to := s.of(t.Elem())
		if t.Elem().Kind() == reflect.Struct {
			return object{{"oneOf", []object{to, {{"type", "null"}}}}}
		}
		return append(object{{"type", []any{to[0].value, "null"}}}, to[1:]...)
	case reflect.Struct:
		return s.structure(t)
	case reflect.Slice:
		return object{{"type", "array"}, {"items", s.of(t.Elem())}}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return object{{"type", "object"}}
		}
		return object{{"type", "object"}, {"additionalProperties", s.of(t.Elem())}}
	case reflect.Int64:
		return number(field{"format", "int64"})
	case reflect.Int:
		return number()
	case reflect.Float64:
		return object{{"type", "number"}}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	default:
		return text().with("enum", enums(t.Name()))
	}
}

// bounds are those of fields that their types do not say.
var bounds = map[string]field{
	"Lock.Limit": {"minimum", 0}, "Lock.Waiting": {"minimum", 0}, "LockHolder.Slot": {"minimum", 0},
	"Lock.Queue": {"maxItems", api.MaxQueueShown},
}

func (s *schemas) structure(t reflect.Type) object {
	name, what := t.Name(), t.Name()
	if strings.HasPrefix(name, "List[") {
		items, _ := t.FieldByName("Items")
		name, what = items.Type.Elem().Name()+"List", "List"
	}
	name = strings.TrimPrefix(name, "Change") // ChangeResult
	if !slices.ContainsFunc(s.list, func(f field) bool { return f.name == name }) {
		s.list = append(s.list, field{name, nil}) // before those of its fields
		properties, required := s.fields(t, what)
		i := slices.IndexFunc(s.list, func(f field) bool { return f.name == name })
		s.list[i].value = described(object{{"type", "object"}}, s.comments[what]).
			with("required", required).with("properties", properties)
	}
	return ref("schemas", name)
}

// fields are those of a type in JSON, and the names of those that are never left out.
func (s *schemas) fields(t reflect.Type, what string) (properties object, required []string) {
	for f := range t.Fields() {
		if f.Anonymous { // its fields stand here in JSON
			inner, always := s.fields(f.Type, f.Type.Name())
			properties, required = append(properties, inner...), append(required, always...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if options == "" {
			required = append(required, name)
		}
		path := what + "." + f.Name
		schema := slices.Clone(s.of(f.Type)).with("enum", enums(path))
		if bound, ok := bounds[path]; ok {
			schema = append(schema, bound)
		}
		properties = append(properties, field{name, described(schema, s.comments[path])})
	}
	return properties, required
}

// named adds a schema of an object with these properties, all of which are always there.
func (s *schemas) named(name, description string, properties object) {
	if slices.ContainsFunc(s.list, func(f field) bool { return f.name == name }) {
		return
	}
	var required []string
	for _, p := range properties {
		required = append(required, p.name)
	}
	s.list = append(s.list, field{name, described(object{{"type", "object"}}, description).
		with("required", required).with("properties", properties)})
}

// commentsOfAPI are the first sentences on the types of package api, and the comments on their fields.
func commentsOfAPI(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../pkg/api/*.go")
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			types, ok := decl.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE {
				continue
			}
			spec := types.Specs[0].(*ast.TypeSpec) //nolint:forcetypeassert // that is what types have
			comments[spec.Name.Name] = sentence(spec.Name.Name, new(doc.Package).Synopsis(types.Doc.Text()))
			structure, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range structure.Fields.List {
				for _, name := range f.Names {
					comment := f.Doc
					if comment == nil {
						comment = f.Comment
					}
					comments[spec.Name.Name+"."+name.Name] = sentence(name.Name, comment.Text())
				}
			}
		}
	}
	return comments
}

// sentence is a comment on something of that name as a sentence. What is zero or nil in Go is null in JSON.
func sentence(name, comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, name+" is "), name+" says ")
	text = strings.NewReplacer("nil:", "null:", "zero:", "null:").Replace(text)
	if text == "" {
		return ""
	}
	if strings.HasPrefix(text, "null:") {
		return text + "."
	}
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}
