package kind

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// declaredElsewhere are the fields of a task that are not in the list. They follow from its group and its name, from
// what was discovered, and from what runs; or no configuration has them: tries of one run begin anew with each run.
var declaredElsewhere = []string{
	"Identity.Group", "Identity.Name", "Identity.Index", "Identity.Discovered.Name", "Identity.Discovered.Partition",
	"Runner", "Timing.Retry.Backoff.ResetAfter",
}

// A field that is added to a task is read from a configuration, printed, and in the schema.
func TestEachFieldOfATaskIsDeclared(t *testing.T) {
	var task tasks.Task
	declared := map[any]string{}
	eachValue(FieldsOf(&task, nil, nil), func(name string, to reflect.Value, _ field.Field) {
		declared[to.Pointer()] = name
	})
	for _, name := range declaredElsewhere {
		declared[name] = name
	}
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		at := v.Addr().Pointer()
		switch _, elsewhere := declared[name]; {
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				walk(strings.TrimPrefix(name+"."+v.Type().Field(i).Name, "."), v.Field(i))
			}
		case elsewhere || declared[at] != "":
			delete(declared, at)
			delete(declared, name)
		default:
			t.Errorf("%s of a task is declared by no field: add it to FieldsOf", name)
		}
	}
	walk("", reflect.ValueOf(&task).Elem())
	for _, name := range declared {
		t.Errorf("%s is no field of a task", name)
	}
}

// What a field says of changes while a run goes on is what becomes of them.
func TestLiveFieldsNeedNoRestart(t *testing.T) {
	var task tasks.Task
	eachValue(FieldsOf(&task, nil, nil), func(name string, to reflect.Value, of field.Field) {
		old := task
		switch v := to.Elem(); v.Kind() {
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
		if got := task.NeedsRestart(old); got == of.Live {
			t.Errorf("%s is live: %t, and its change needs a restart: %t", name, of.Live, got)
		}
		task = old
	})
}

// eachValue calls do with each variable that a list fills, and with the field of the list that it belongs to.
func eachValue(list field.List, do func(name string, to reflect.Value, of field.Field)) {
	for _, f := range list {
		if below, is := f.Value.(field.Mapping); is {
			eachValue(below.Fields, func(name string, to reflect.Value, _ field.Field) { do(f.Name+"."+name, to, f) })
			continue
		}
		do(f.Name, reflect.ValueOf(f.Value).FieldByName("To"), f)
	}
}

// What is declared are the fields that are shown, of those that the task has.
func TestDeclared(t *testing.T) {
	contact, hook, empty := "a@example.org", "https://u:secret@h/", ""
	fields := field.List{
		{Name: "contact", Value: field.Text{To: &contact}, Shown: true},
		{Name: "hook", Value: field.Text{To: &hook}, Shown: true, With: field.Owned},
		{Name: "empty", Value: field.Text{To: &empty}, Shown: true},
		{Name: "hidden", Value: field.Text{To: &contact}},
	}
	for ticks, want := range map[bool]string{
		false: "map[contact:a@example.org hook:https://u:xxxxx@h/]", true: "map[contact:a@example.org]",
	} {
		if got := fmt.Sprint(fields.For(withTicks(ticks)).Shown()); got != want {
			t.Errorf("with ticks: %t: got %s, want %s", ticks, got, want)
		}
	}
}

func TestFieldsOfWork(t *testing.T) {
	want := "{[restart backoff maxRestarts] [schedule every timeZone overlap catchUp catchUpWindow timeout retry]}"
	if got := fmt.Sprint(FieldsOfWork()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
