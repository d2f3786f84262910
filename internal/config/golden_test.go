package config

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/discover/listers"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/runners/callback"
	"github.com/shardctl/shardctl/internal/runners/exec"
	"github.com/shardctl/shardctl/internal/runners/httptask"
)

var update = flag.Bool("update", false, "write what Load says into testdata")

// scenario is a file of testdata: files under "-- NAME --", and under "-- want --" what comes of them.
type scenario struct {
	path  string
	files []string // in order
	text  map[string]string
}

var marker = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

func readScenario(t *testing.T, path string) scenario {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := scenario{path: path, text: map[string]string{}}
	marks := marker.FindAllStringSubmatchIndex(string(content), -1)
	for i, m := range marks {
		end := len(content)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		name := string(content[m[2]:m[3]])
		s.text[name] = string(content[m[1]:end])
		if name != "want" {
			s.files = append(s.files, name)
		}
	}
	return s
}

// chdir writes the files into a directory of the test's own and goes there.
func (s scenario) chdir(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range s.files {
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(s.text[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (s scenario) compare(t *testing.T, path, got string) {
	t.Helper()
	if got == s.text["want"] {
		return
	}
	if !*update {
		t.Errorf("got\n%s\nwant\n%s", got, s.text["want"])
		return
	}
	var b strings.Builder
	for _, name := range s.files {
		b.WriteString("-- " + name + " --\n" + s.text[name])
	}
	b.WriteString("-- want --\n" + got)
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

var testOptions = optionsOf(testEnv)

func optionsOf(env decode.Lookup) Options {
	return Options{Env: env, Kinds: work, Listers: listerKinds}
}

// work are the kinds that are no subscription, and listerKinds those that ask no broker. What tests expect of them does
// not change with one that is added.
var (
	work = func() *kind.Set[kind.Kind] {
		all, err := kind.NewSet[kind.Kind](exec.Kind{}, httptask.Kind{}, callback.Kind{})
		if err != nil {
			panic(err)
		}
		return all
	}()
	listerKinds = func() *kind.Set[discover.Kind] {
		all, err := kind.NewSet[discover.Kind](listers.FileKind, listers.HTTPKind, listers.CallbackKind)
		if err != nil {
			panic(err)
		}
		return all
	}()
)

func testEnv(name string) (string, bool) {
	value, ok := map[string]string{
		"TWENTY": "20", "WORD": "twenty", "EMPTY": "", "YES": "true", "LONG": "1h", "PASSWORD": "hunter2",
		"POD_IP": "10.1.2.3",
		"LAST":   "3", "A": "s3cret", "DOLLAR": "$(WORD)", "BAD_URI": "mongodb://u:hunter2@",
	}[name]
	return value, ok
}

func TestBadFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			s := readScenario(t, abs)
			s.chdir(t)
			from := []string{"."}
			if args, ok := s.text["args"]; ok {
				from = strings.Fields(args)
			}
			_, err := Load(from, testOptions)
			if err == nil {
				t.Fatal("Load took it")
			}
			got := err.Error() + "\n"
			s.compare(t, abs, got)
			if strings.Contains(got, "hunter2") {
				t.Error("a password is shown")
			}
		})
	}
}
