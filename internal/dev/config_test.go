package dev

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/kinds"
)

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"defaults":      {func(*Options) {}, ""},
		"any port":      {func(o *Options) { o.Port = 0 }, ""},
		"largest":       {func(o *Options) { *o = Options{50, 10000, 1 << 30, 65535, "sqlite:dev.db", "true"} }, ""},
		"no replicas":   {func(o *Options) { o.Replicas = 0 }, "--replicas 0: want 1 to 50"},
		"many replicas": {func(o *Options) { o.Replicas = 51 }, "--replicas 51: want 1 to 50"},
		"no tasks":      {func(o *Options) { o.Tasks = -1 }, "--tasks -1: want 1 to 10000"},
		"no cap":        {func(o *Options) { o.Cap = 0 }, "--cap 0: want 1 or more"},
		"store": {
			func(o *Options) { o.Store = "sqlite:" }, "--store: store.uri: names no file, must be sqlite:PATH",
		},
		"port": {func(o *Options) { o.Port = 65536 }, "--port 65536: want 0 to 65535"},
		"all at once": {
			func(o *Options) { *o = Options{0, 0, 0, -1, "", ""} },
			"--replicas 0: want 1 to 50\n--tasks 0: want 1 to 10000\n--cap 0: want 1 or more\n--port -1: want 0 to " +
				"65535",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := Defaults()
			test.change(&o)
			got := ""
			if err := o.Validate(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestConfigFileLoads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd $(NAME) dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 12, 100, 10000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			o := Options{Replicas: 1, Tasks: n, Cap: 30}
			content, err := configFile(o, "r3", dir, "127.0.0.1:1111", "127.0.0.1:2222")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "r3.yaml")
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := config.Load([]string{file}, config.Options{
				Env: func(string) (string, bool) { return "", false }, Kinds: kinds.All(), Listers: kinds.Listers(),
			})
			if err != nil {
				t.Fatal(err)
			}
			if s.Instance != "r3" || s.Lease.Duration != 2*time.Second || s.Rebalance.Settle != time.Second ||
				s.Store.URI != "sqlite:"+filepath.Join(dir, "dev.db") {
				t.Errorf("got %+v", s)
			}
			if s.Server.Listen != "127.0.0.1:1111" || s.Server.Advertise != "127.0.0.1:1111" ||
				s.Admin.Listen != "127.0.0.1:2222" {
				t.Errorf("got %+v and %+v", s.Server, s.Admin)
			}
			if g := s.Groups[0]; len(s.Groups) != 1 || g.Name != group || len(g.Tasks) != n || g.Cap == nil ||
				*g.Cap != 30 {
				t.Errorf("got %d groups, %s with %d tasks", len(s.Groups), g.Name, len(g.Tasks))
			}
		})
	}
}
