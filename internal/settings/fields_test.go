package settings

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/field"
)

// Fields of a configuration that no list has. The rest of a store follows from its URI, and of a group from its tasks.
// ShownFields is how its tasks are shown.
var declaredElsewhere = []string{
	"Settings.Store.URI", "Settings.Store.Renew", "Settings.Store.DatabaseHidden", "Settings.Store.Withheld",
	"Settings.Store.Written", "Settings.Admin.TLS.CAFile", "Settings.Groups", "Settings.ShownFields",
	"Group.Name", "Group.Tasks", "Group.Discover", "Group.Hash", "Discover.Lister", "Discover.Template",
}

// A setting that is added is read from a configuration, printed, in the schema, and on the page.
func TestEachSettingIsDeclared(t *testing.T) {
	var all struct {
		Settings Settings
		Group    Group
		Discover Discover
	}
	declared := map[any]string{}
	for _, list := range []field.List{
		FieldsOf(&all.Settings, nil), GroupFieldsOf(&all.Group, nil), all.Discover.Fields(),
	} {
		eachValue(list, func(name string, to reflect.Value) { declared[to.Pointer()] = name })
	}
	left := slices.Clone(declaredElsewhere)
	walk("", reflect.ValueOf(&all).Elem(), func(name string, at uintptr) {
		if i := slices.Index(left, name); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else if declared[at] == "" {
			t.Errorf("%s is declared by no field: add it to the list", name)
		}
		delete(declared, at)
	})
	if len(left) > 0 || len(declared) > 0 {
		t.Errorf("%v and %v are no fields", left, declared)
	}
}

// What is live needs no restart, and of all else each change is named, down to the fields of a section.
func TestChanged(t *testing.T) {
	var s Settings
	before := new(Settings)
	for _, f := range FieldsOf(&s, nil) {
		eachValue(field.List{f}, func(name string, to reflect.Value) {
			old := reflect.New(to.Elem().Type()).Elem()
			old.Set(to.Elem())
			change(to.Elem())
			var want []string
			if !f.Live {
				parts := strings.Split(name, ".")
				want = []string{strings.Join(parts[:min(2, len(parts))], ".")}
			}
			if got := FieldsOf(&s, nil).Changed(FieldsOf(before, nil)); !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
			to.Elem().Set(old)
		})
	}
}

func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("changed")
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"changed": "1"}))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	default:
		v.SetInt(7)
	}
}

// eachValue calls do with each variable that a list fills.
func eachValue(list field.List, do func(name string, to reflect.Value)) {
	for _, f := range list {
		switch v := f.Value.(type) {
		case field.Mapping:
			eachValue(v.Fields, func(name string, to reflect.Value) { do(f.Name+"."+name, to) })
		case field.Elsewhere:
		default:
			do(f.Name, reflect.ValueOf(v).FieldByName("To"))
		}
	}
}

// walk calls do with each field of a structure that is none itself.
func walk(name string, v reflect.Value, do func(name string, at uintptr)) {
	if v.Kind() != reflect.Struct {
		do(name, v.Addr().Pointer())
		return
	}
	for i := range v.NumField() {
		walk(strings.TrimPrefix(name+"."+v.Type().Field(i).Name, "."), v.Field(i), do)
	}
}
