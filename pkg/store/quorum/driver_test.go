package quorum_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/quorum"
	_ "github.com/shardctl/shardctl/pkg/store/redis"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/pkg/store/storetest"
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

// What cannot be a quorum is refused before any server is asked.
func TestWrongURIs(t *testing.T) {
	const three = "quorum:redis://a,redis://b,redis://c"
	storetest.URIs{
		Right: map[string]string{three: ""},
		Wrong: map[string]string{
			"quorum:":                             "names 0 servers, must be 3 or 5",
			"quorum:redis://a,redis://b":          "names 2 servers, must be 3 or 5",
			three + ",redis://d":                  "names 4 servers, must be 3 or 5",
			three + ",redis://a,redis://d":        "names redis://a twice",
			"quorum:" + three:                     "server 1, xxxxx, is a quorum",
			"quorum:a,b,c":                        "server 1, xxxxx, does not begin with a known scheme",
			"quorum:redis://a,redis://,redis://c": "server 2, redis://, ",

			"quorum:redis://a,redis://u:s3cret@b?x=1,redis://c":       "server 2, redis://u:xxxxx@b",
			"quorum:redis://a,redis+sentinel://s/m?nodes=3,redis://c": "Sentinel may make a replica",
			"quorum:redis://a,redis://b,redis+cluster://c?nodes=2":    "server 3, ",
			"quorum:redis://a?nodes=2,redis://b,redis://c":            "leave nodes out",
		},
		Configs: []storetest.Parsed{
			{Config: driver.Config{URI: three, Database: "d"}, Field: "database", Says: `is "d", must be left out`},
			{
				Config: driver.Config{URI: three, Cluster: strings.Repeat("c", 60)}, Field: "cluster",
				Says: "a quorum adds .quorum to it",
			},
		},
		Shown: map[string]string{
			"quorum:redis://u:s3cret@a,redis://b,sqlite:/c": "quorum:redis://u:xxxxx@a,redis://b,sqlite:/c",
			"quorum:other:s3cret,redis://b":                 "quorum:xxxxx,redis://b",
			"quorum:":                                       "quorum:",
		},
		Nobody: func(addr string) string {
			return "quorum:redis://u:s3cret@" + addr + "/0,redis://" + addr + "/1,redis://" + addr + "/2"
		},
	}.Run(t)
}

// Three files of one machine make a quorum: it is set up, written to, and opened again without one of them.
func TestOpenByURI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	uri := "quorum:sqlite:" + filepath.Join(dir, "a") + ",sqlite:" + filepath.Join(dir, "b") + ",sqlite:" +
		filepath.Join(dir, "c")
	s := setUpURI(t, uri)
	if out := apply(t, s, put("g/a", 0, 1, 1)); out.Status != driver.Applied {
		t.Fatalf("%+v", out)
	}
	eventually(t, func() error { return allCount(s) })
	is, err := store.Inspect(t.Context(), s)
	if err != nil || is.Server != "quorum of 3 servers" {
		t.Errorf("%+v, %v", is, err)
	}
	shown := func(name, value string) bool {
		return slices.ContainsFunc(is.Settings, func(one driver.Setting) bool {
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
	if s, err := store.Open(t.Context(), driver.Config{URI: other}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("another list of servers is opened: %v, %v", s, err)
	}
}

// A server has its own part of a renewed URI; one that names more or fewer servers is not followed.
func TestRenewPart(t *testing.T) {
	renewed, failed := "", error(nil)
	renew := quorum.RenewPart(func() (string, error) { return renewed, failed }, 1, 3)
	renewed = "quorum:redis://a,redis://u:p@b,redis://c"
	if got, err := renew(); got != "redis://u:p@b" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	for _, renewed = range []string{"", "quorum:redis://a,redis://u:p@b", "redis://u:p@b"} {
		if got, err := renew(); err == nil {
			t.Errorf("renewed as %s: got %s, want an error", renewed, got)
		}
	}
	failed = errors.New("no such file")
	if _, err := renew(); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	if quorum.RenewPart(nil, 0, 3) != nil {
		t.Error("a URI that stays is renewed")
	}
}
