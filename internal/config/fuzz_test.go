package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/decode"
)

// FuzzLoad: whatever a file holds, Load takes it or says where it is wrong; and what it prints it takes again.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"../../config/*.yaml", "testdata/bad/*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			_, content, found := bytes.Cut(content, []byte(" --\n"))
			if !found {
				content, err = os.ReadFile(file)
			}
			content, _, _ = bytes.Cut(content, []byte("\n-- "))
			f.Add(string(content))
			if err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file:") {
			t.Skip("would read files of this machine")
		}
		path := filepath.Join(t.TempDir(), "a.yaml")
		write(t, path, text)
		s, err := Load([]string{path}, testOptions)
		if err == nil {
			printAgain(t, s)
			return
		}
		var errs decode.Errors
		if !errors.As(err, &errs) || len(errs) == 0 {
			t.Fatalf("error %v of type %T", err, err)
		}
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + strings.Count(text, "\u0085") +
			strings.Count(text, "\u2028") + strings.Count(text, "\u2029") + 1
		for _, e := range errs {
			if e.File != path || e.Line < 1 || e.Line > lines+1 || e.Col < 1 || e.Message == "" {
				t.Errorf("error without a place: %+v in %d lines", e, lines)
			}
		}
	})
}

func printAgain(t *testing.T, s *Config) {
	t.Helper()
	if s.Tasks() > 200 {
		return
	}
	var b bytes.Buffer
	if err := s.Print(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "$(") {
		return // what is printed may be a text with a variable in it, and that is another configuration
	}
	path := filepath.Join(t.TempDir(), "printed.yaml")
	write(t, path, b.String())
	if _, err := Load([]string{path}, testOptions); err != nil {
		t.Errorf("Load of what Print wrote: %v\n%s", err, b.String())
	}
}

// FuzzVariables: whatever text stands in a value, and whatever comes in for its variables, Load takes it or says where
// it is wrong. What comes in is looked at no second time.
func FuzzVariables(f *testing.F) {
	for _, text := range []string{
		"$(X)", "a-$(X)", "$(X:-b)", "$(Y)", "$(Y:-)", "$$(X)", "$(X", "$()", "$(SHARDCTL_KEY)",
		"$(SHARDCTL_FENCING_TOKEN)", "{$(X)}", "$(X)$(X)",
	} {
		for _, value := range []string{"", "z", "$(Y)", "{1..9}", "- a", "null", "\x00\xff", "a: b"} {
			f.Add(text, value)
		}
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if strings.Contains(text, "file:") || strings.ContainsAny(text, "'\n\r\u0085\u2028\u2029") {
			t.Skip("would read files, or be no single value")
		}
		path := filepath.Join(t.TempDir(), "a.yaml")
		write(t, path, "version: 1\nstore: {uri: 'sqlite:a.db'}\nzone: '"+text+"'\ngroups:\n  - name: g\n    tasks:\n"+
			"      - {name: 'a-{1..2}', exec: {command: [x, '"+text+"']}, labels: {l: '"+text+"'}}\n")
		s, err := Load([]string{path}, optionsOf(func(name string) (string, bool) { return value, name == "X" }))
		if err != nil {
			var errs decode.Errors
			if !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("error %v of type %T", err, err)
			}
			for _, e := range errs {
				if e.File != path || e.Line < 1 || e.Message == "" {
					t.Errorf("error without a place: %+v", e)
				}
			}
			return
		}
		if text == "$(X)" && s.Zone != value {
			t.Errorf("zone %q for %q", s.Zone, value)
		}
		if len(s.Groups) != 1 || len(s.Groups[0].Tasks) != 2 {
			t.Errorf("%q made another list of tasks: %d", text, s.Tasks())
		}
	})
}
