package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect"
)

var here = Identity{PodUID: "uid", Container: "shardctl"}

const (
	a = "aaaaaaaa-0000-4000-8000-000000000000"
	b = "bbbbbbbb-0000-4000-8000-000000000000"
	c = "cccccccc-0000-4000-8000-000000000000"
)

func take(t *testing.T, dir string, id Identity) (*Place, []electing.Session) {
	t.Helper()
	p, left, err := takePlace(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	return p, left
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestPlaceRemembersWhatWasLeft(t *testing.T) {
	dir := t.TempDir()
	first, left := take(t, dir, here)
	if len(left) > 0 {
		t.Fatalf("an empty place has %v", left)
	}
	must(t, first.Opening(a), first.Closed(a), first.Opening(b), first.RemoteLease("g/k", b, 20*time.Second),
		first.RemoteLease("g/k", "closed", time.Second))
	if _, _, err := takePlace(dir, here); !errors.Is(err, ErrNotInPlace) {
		t.Fatalf("a place that is held was taken: %v", err)
	}
	first.Release() // as the death of the process does

	want := []electing.Session{{ID: b, Remote: map[elect.Key]time.Duration{"g/k": 20 * time.Second}}}
	second, left := take(t, dir, here)
	if !reflect.DeepEqual(left, want) {
		t.Fatalf("left %v, want %v", left, want)
	}
	must(t, second.Opening(c))
	second.Release() // before b was marked

	third, left := take(t, dir, here)
	if len(left) != 2 {
		t.Fatalf("left %v, want b and c", left)
	}
	must(t, third.Closed(b), third.Closed(c))
	third.Release()
	if _, left = take(t, dir, here); len(left) > 0 {
		t.Fatalf("left %v, want nothing", left)
	}
}

func TestPlaceOfAnotherProvesNothing(t *testing.T) {
	others := []Identity{{PodUID: "another", Container: here.Container}, {PodUID: here.PodUID, Container: "another"}}
	for _, other := range others {
		dir := t.TempDir()
		first, _ := take(t, dir, here)
		must(t, first.Opening(a))
		first.Release()
		second, left := take(t, dir, other)
		if len(left) > 0 {
			t.Errorf("%v: left %v", other, left)
		}
		second.Release()
		if _, left := take(t, dir, here); len(left) > 0 {
			t.Errorf("%v did not make the place its own: left %v", other, left)
		}
	}
}

func TestPlaceNeedsAnIdentity(t *testing.T) {
	for _, id := range []Identity{{}, {PodUID: "uid"}, {Container: "c"}} {
		if _, _, err := takePlace(t.TempDir(), id); !errors.Is(err, ErrNotInPlace) {
			t.Errorf("%+v: %v", id, err)
		}
	}
	if _, _, err := (&Client{guard: 7}).InPlace(t.Context(), t.TempDir(), here); !errors.Is(err, ErrNotInPlace) {
		t.Errorf("the guard is not PID 1: %v", err)
	}
}

// noted is what a predecessor noted, with something put in its place.
func noted(t *testing.T, dir, old, replaced string) {
	t.Helper()
	first, _ := take(t, dir, here)
	must(t, first.Opening(a), first.RemoteLease("g/k", a, time.Second))
	first.Release()
	file := filepath.Join(dir, "place.json")
	text, err := os.ReadFile(file)
	must(t, err)
	changed := strings.Replace(string(text), old, replaced, 1)
	if old != "" && changed == string(text) {
		t.Fatalf("%s has no %s", text, old)
	}
	must(t, os.WriteFile(file, []byte(changed), 0o600))
}

func TestPlaceWithABrokenFile(t *testing.T) {
	boot, err := bootID()
	must(t, err)
	for what, change := range map[string][2]string{
		"torn":                           {`"g/k":1000000000}}}`, ``},
		"no session at all":              {a, "x"},
		"of another pod":                 {`"uid"`, `"other"`},
		"of another container":           {`"shardctl"`, `"other"`},
		"of another boot":                {boot, "00000000-0000-4000-8000-000000000000"},
		"a remote lease without end":     {`1000000000`, `100000000000000`},
		"a remote lease of the past":     {`1000000000`, `-1`},
		"a remote lease of no key":       {`"g/k"`, `""`},
		"remote leases that are no list": {`{"g/k":1000000000}`, `null`},
		"another kind of thing":          {`{"podUid"`, `[{"podUid"`},
	} {
		dir := t.TempDir()
		noted(t, dir, change[0], change[1])
		p, left := take(t, dir, here)
		if len(left) > 0 {
			t.Errorf("%s: left %v", what, left)
		}
		must(t, p.Opening(b))
		p.Release()
		if _, left = take(t, dir, here); len(left) != 1 || left[0].ID != b {
			t.Errorf("%s: then left %v, want what was noted since", what, left)
		}
	}
	dir := t.TempDir()
	noted(t, dir, "", "")
	if _, left := take(t, dir, here); len(left) != 1 {
		t.Errorf("unchanged: left %v", left)
	}
}

// What cannot be noted must not be missing from what a successor reads.
func TestPlaceThatCannotNoteForgets(t *testing.T) {
	dir := t.TempDir()
	p, _ := take(t, dir, here)
	must(t, p.Opening(a), os.Mkdir(filepath.Join(dir, "place.json.new"), 0o700),
		os.WriteFile(filepath.Join(dir, "place.json.new", "x"), nil, 0o600))
	if err := p.RemoteLease("g/k", a, time.Second); !errors.Is(err, ErrForgotten) {
		t.Fatalf("a remote lease that was not noted: %v", err)
	}
	must(t, p.RemoteLease("g/k", a, time.Second), p.Opening(b), p.Closed(a))
	p.Release()
	if _, _, err := takePlace(dir, here); err == nil {
		t.Error("a place that cannot be written was taken")
	}
	must(t, os.RemoveAll(filepath.Join(dir, "place.json.new")))
	if _, left := take(t, dir, here); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestPlaceForgetsWhatNoMarkCanCarry(t *testing.T) {
	dir := t.TempDir()
	p, _ := take(t, dir, here)
	must(t, p.Opening(a), p.Opening(b))
	for i := range 2000 {
		must(t, p.RemoteLease(elect.NewKey("g", fmt.Sprintf("a-name-that-is-not-short-%d", i)), a, time.Second))
	}
	p.Release()
	if _, left := take(t, dir, here); len(left) != 1 || left[0].ID != b {
		t.Errorf("left %d, want b alone", len(left))
	}
}
