package guard

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

var here = Identity{PodUID: "uid", Container: "shardctl"}

func take(t *testing.T, dir string, id Identity) (*Place, []Session) {
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
	must(t, first.Opening("a"), first.Closed("a"), first.Opening("b"), first.Granting("g/k", "b", 20*time.Second),
		first.Granting("g/k", "closed", time.Second))
	if _, _, err := takePlace(dir, here); !errors.Is(err, ErrNotInPlace) {
		t.Fatalf("a place that is held was taken: %v", err)
	}
	first.Release() // as the death of the process does

	want := []Session{{UUID: "b", Granted: map[elect.Key]time.Duration{"g/k": 20 * time.Second}}}
	second, left := take(t, dir, here)
	if !reflect.DeepEqual(left, want) {
		t.Fatalf("left %v, want %v", left, want)
	}
	must(t, second.Opening("c"))
	second.Release() // before b was marked

	third, left := take(t, dir, here)
	if len(left) != 2 {
		t.Fatalf("left %v, want b and c", left)
	}
	must(t, third.Closed("b"), third.Closed("c"))
	third.Release()
	if _, left = take(t, dir, here); len(left) > 0 {
		t.Fatalf("left %v, want nothing", left)
	}
}

func TestPlaceOfAnotherProvesNothing(t *testing.T) {
	for _, other := range []Identity{{PodUID: "another", Container: here.Container}, {PodUID: here.PodUID, Container: "another"}} {
		dir := t.TempDir()
		first, _ := take(t, dir, here)
		must(t, first.Opening("a"))
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
	if _, _, err := InPlace(t.TempDir(), here); !errors.Is(err, ErrNotInPlace) && os.Getppid() != 1 {
		t.Errorf("the parent is not PID 1: %v", err)
	}
}

func TestPlaceWithABrokenFile(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "place.json"), []byte(`{"podUid":"uid","conta`), 0o600))
	p, left := take(t, dir, here)
	if len(left) > 0 {
		t.Errorf("left %v", left)
	}
	must(t, p.Opening("a"))
}
