package quorum_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/quorum"
	_ "github.com/shardctl/shardctl/pkg/store/redis"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
)

func TestURIs(t *testing.T) {
	for uri, want := range map[string][]string{
		"quorum:redis://a,redis://b,redis://c":           {"redis://a", "redis://b", "redis://c"},
		"quorum:etcd://a,b,c/p,zk://d,e/f,mongodb://g,h": {"etcd://a,b,c/p", "zk://d,e/f", "mongodb://g,h"},
		"quorum:sqlite:/a,sqlite:/b,sqlite:/c":           {"sqlite:/a", "sqlite:/b", "sqlite:/c"},
		"quorum:":                                        nil,
	} {
		if got := quorum.Split(uri); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", uri, got, want)
		}
	}
	if got := quorum.Place("redis://u:secret@a:1/0?tls=true"); got != "redis://a:1/0" {
		t.Errorf("place %s", got)
	}
}

// What cannot be a quorum is refused before any server is asked, and no password is shown.
func TestURIsThatAreRefused(t *testing.T) {
	three := "quorum:redis://a,redis://b,redis://c"
	for name, tt := range map[string]struct {
		c     store.Config
		field string
		says  string
	}{
		"none":      {store.Config{URI: "quorum:"}, "uri", "names 0 servers, must be 3 or 5"},
		"two":       {store.Config{URI: "quorum:redis://a,redis://b"}, "uri", "names 2 servers, must be 3 or 5"},
		"four":      {store.Config{URI: three + ",redis://d"}, "uri", "names 4 servers, must be 3 or 5"},
		"twice":     {store.Config{URI: three + ",redis://a,redis://d"}, "uri", "names redis://a twice"},
		"a quorum":  {store.Config{URI: "quorum:" + three}, "uri", "server 1, xxxxx, is a quorum"},
		"no scheme": {store.Config{URI: "quorum:a,b,c"}, "uri", "server 1, xxxxx, does not begin with a known scheme"},
		"no host":   {store.Config{URI: "quorum:redis://a,redis://,redis://c"}, "uri", "server 2, redis://, "},
		"password": {
			store.Config{URI: "quorum:redis://a,redis://u:opensesame@b?x=1,redis://c"},
			"uri",
			"server 2, redis://u:xxxxx@b",
		},
		"sentinel": {
			store.Config{URI: "quorum:redis://a,redis+sentinel://s/m?nodes=3,redis://c"},
			"uri",
			"Sentinel may make a replica",
		},
		"cluster":  {store.Config{URI: "quorum:redis://a,redis://b,redis+cluster://c?nodes=2"}, "uri", "server 3, "},
		"replicas": {store.Config{URI: "quorum:redis://a?nodes=2,redis://b,redis://c"}, "uri", "leave nodes out"},
		"database": {store.Config{URI: three, Database: "d"}, "database", `is "d", must be left out`},
		"cluster name": {
			store.Config{URI: three, Cluster: strings.Repeat("c", 60)}, "cluster", "a quorum adds .quorum to it",
		},
	} {
		_, err := store.Parse(tt.c)
		wrong, ok := errors.AsType[*store.FieldError](err)
		if !ok || wrong.Field != tt.field || !strings.Contains(wrong.Text, tt.says) ||
			strings.Contains(wrong.Text, "opensesame") {
			t.Errorf("%s: %v, want %s: …%s…", name, err, tt.field, tt.says)
		}
	}
	if _, err := store.Parse(store.Config{URI: three}); err != nil {
		t.Error(err)
	}
}

func TestRedactedURIs(t *testing.T) {
	d, err := store.Lookup("quorum:")
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]string{
		"quorum:redis://u:pw@a,redis://b,sqlite:/c": "quorum:redis://u:xxxxx@a,redis://b,sqlite:/c",
		"quorum:other:pw,redis://b":                 "quorum:xxxxx,redis://b",
		"quorum:":                                   "quorum:",
	} {
		if got := d.Redact(uri); got != want {
			t.Errorf("%s: got %s, want %s", uri, got, want)
		}
	}
}

// Three files of one machine make a quorum: it is set up, written to, and opened again without one of them.
func TestOpenByURI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	uri := "quorum:sqlite:" + filepath.Join(dir, "a") + ",sqlite:" + filepath.Join(dir, "b") + ",sqlite:" +
		filepath.Join(dir, "c")
	s := setUpURI(t, uri)
	if out := apply(t, s, put("g/a", 0, 1, 1)); out.Status != store.Applied {
		t.Fatalf("%+v", out)
	}
	eventually(t, func() error { return allCount(s) })
	is, err := store.Inspect(t.Context(), s)
	if err != nil || is.Server != "quorum of 3 servers" {
		t.Errorf("%+v, %v", is, err)
	}
	shown := func(name, value string) bool {
		return slices.ContainsFunc(is.Settings, func(one store.Setting) bool {
			return one.Name == name && strings.Contains(one.Value, value) && one.Holds
		})
	}
	if !shown("server 2", filepath.Join(dir, "b")) || !shown("server 3 journal_mode", "wal") {
		t.Errorf("settings: %+v", is.Settings)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(uri, filepath.Join(dir, "b"), filepath.Join(dir, "d"), 1)
	if s, err := store.Open(t.Context(), store.Config{URI: other}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("another list of servers is opened: %v, %v", s, err)
	}
}
