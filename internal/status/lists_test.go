package status

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// Watchers are sent every field that changes. Those of an id never do.
func TestEveryFieldIsNews(t *testing.T) {
	wantNews(t, sameTask, "Key", "Group", "Name")
	wantNews(t, sameGroup)
}

// wantNews changes one field after another.
func wantNews[T any](t *testing.T, same func(a, b *T) bool, ids ...string) {
	t.Helper()
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if f.Anonymous || slices.Contains(ids, f.Name) {
			continue
		}
		var a, b T
		changeField(t, reflect.ValueOf(&b).Elem().FieldByIndex(f.Index))
		if same(&a, &b) {
			t.Errorf("%T: a change of %s alone is no news", a, f.Name)
		}
	}
}

func changeField(t *testing.T, v reflect.Value) {
	t.Helper()
	if _, is := reflect.TypeAssert[api.Time](v); is {
		v.Set(reflect.ValueOf(api.Time{Time: time.UnixMilli(1)}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	default:
		t.Fatalf("a field of type %s: teach this test to change it", v.Type())
	}
}
