package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A module with tests that fail at first, each in its own way. Every test notes that it ran in its directory.
var module = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.24\n",
	"ran/ran.go": `package ran

import (
	"os"
	"testing"
)

// Before says how often this test ran before.
func Before(t *testing.T) int {
	noted, _ := os.ReadFile(t.Name() + ".ran")
	if err := os.WriteFile(t.Name()+".ran", append(noted, '+'), 0o600); err != nil {
		t.Fatal(err)
	}
	return len(noted)
}
`,
	"internal/status/x_test.go": tests(
		"func TestSound(t *testing.T) { ran.Before(t) }",
		`func TestFlaky(t *testing.T) { if ran.Before(t) == 0 { t.Error("at first") } }`,
		`func TestFlakyToo(t *testing.T) { t.Run("part", func(t *testing.T) { t.Log("a part") }); TestFlaky(t) }`,
	),
	"internal/guard/x_test.go": tests(`func TestFlaky(t *testing.T) { if ran.Before(t) == 0 { t.Error("at first") } }`),
	"internal/dev/x_test.go": tests(
		`func TestFlaky(t *testing.T) { if ran.Before(t) == 0 { t.Error("at first") } }`,
		`func TestPanic(t *testing.T) { if ran.Before(t) == 0 { panic("at first") } }`,
	),
	"internal/discovery/x_test.go": tests(`func TestBroken(t *testing.T) { ran.Before(t); t.Error("always") }`),
	"docs/x_test.go":               tests(`func TestUnbuilt(t *testing.T) { ran.Nothing(t) }`),
	"test/testbroker/x_test.go": tests(
		`func TestMain(m *testing.M) { m.Run(); os.Exit(1) }`, `func TestSound(t *testing.T) { ran.Before(t) }`,
	) + "\nvar _ = os.Exit\n",
	"test/testservers/x_test.go": tests(
		`func TestMain(m *testing.M) { code := m.Run(); println("logs are kept"); os.Exit(code) }`,
		`func TestFlaky(t *testing.T) { if ran.Before(t) == 0 { t.Error("at first") } }`,
	),
	"internal/detector/x_test.go": tests(
		"func TestSound(t *testing.T) { ran.Before(t) }",
		"func TestDetector(t *testing.T) { if ran.Before(t) == 0 { "+check+" } }",
	),
	"internal/late/x_test.go": tests(
		`func TestFailed(t *testing.T) { ran.Before(t); t.Error("at first") }`,
		"func TestDetector(t *testing.T) { ran.Before(t); "+check+" }",
	),
	"test/testmongo/x_test.go": tests(
		`func TestMain(m *testing.M) { m.Run(); panic("at the end") }`,
		`func TestFailed(t *testing.T) { ran.Before(t); t.Error("at first") }`,
	),
}

// check is what the race detector does when a check of its own fails, as seen in a run of pkg/elect.
const check = `println("ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346 (0x0, 0x0) (tid=1)"); os.Exit(66)`

func tests(functions ...string) string {
	return "package x\n\nimport (\n\"os\"\n\"testing\"\n\n\"example.com/m/ran\"\n)\n\nvar _ = os.Args\n\n" +
		strings.Join(functions, "\n\n") + "\n"
}

func TestSecondAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		packages []string
		again    []string       // lines
		ran      map[string]int // how often each test ran
		fails    string
	}{
		"flaky tests are repeated alone": {
			packages: []string{"./internal/status", "./ran"},
			again:    []string{"internal/status TestFlaky", "internal/status TestFlakyToo"},
			ran: map[string]int{
				"internal/status/TestSound": 1, "internal/status/TestFlaky": 2, "internal/status/TestFlakyToo": 2,
			},
		},
		"a guard's are not": {
			packages: []string{"./internal/guard"}, ran: map[string]int{"internal/guard/TestFlaky": 1},
			fails: "no second attempt",
		},
		"nor others beside them": {
			packages: []string{"./internal/guard", "./internal/status"},
			ran:      map[string]int{"internal/guard/TestFlaky": 1, "internal/status/TestFlaky": 1},
			fails:    "no second attempt",
		},
		"nor a panic": {
			packages: []string{"./internal/dev"}, fails: "without a failed test",
			ran: map[string]int{"internal/dev/TestFlaky": 1, "internal/dev/TestPanic": 1},
		},
		"nor what is not built": {packages: []string{"./docs"}, fails: "without a failed test"},
		"nor a failed TestMain": {
			packages: []string{"./test/testbroker"}, fails: "without a failed test",
			ran: map[string]int{"test/testbroker/TestSound": 1},
		},
		"what TestMain says at the end is not in the way": {
			packages: []string{"./test/testservers"}, again: []string{"test/testservers TestFlaky"},
			ran: map[string]int{"test/testservers/TestFlaky": 2},
		},
		"nor a TestMain that panics": {
			packages: []string{"./test/testmongo"}, fails: "without a failed test",
			ran: map[string]int{"test/testmongo/TestFailed": 1},
		},
		"where the race detector failed all is repeated": {
			packages: []string{"./internal/detector"}, again: []string{"internal/detector (the race detector failed)"},
			ran: map[string]int{"internal/detector/TestSound": 2, "internal/detector/TestDetector": 2},
		},
		"but not after a test failed": {
			packages: []string{"./internal/late"}, fails: "no second attempt",
			ran: map[string]int{"internal/late/TestFailed": 1, "internal/late/TestDetector": 1},
		},
		"failing twice fails": {
			packages: []string{"./internal/discovery"}, again: []string{"internal/discovery TestBroken"},
			ran: map[string]int{"internal/discovery/TestBroken": 2}, fails: "second attempt",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TRIES", "") // that of the run that this test is part of
			dir := t.TempDir()
			for path, text := range module {
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			err := run(t.Context(), dir, append([]string{"-vet=off", "--"}, tt.packages...), &out)
			if tt.fails == "" && err != nil || tt.fails != "" &&
				(err == nil || !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("%v, want %q\n%s", err, tt.fails, &out)
			}
			var again []string
			for line := range strings.Lines(out.String()) {
				if test, ok := strings.CutPrefix(line, "tried again: example.com/m/"); ok {
					again = append(again, strings.TrimSpace(test))
				}
			}
			if strings.Join(again, ",") != strings.Join(tt.again, ",") {
				t.Errorf("tried again: %q, want %q", again, tt.again)
			}
			for test, want := range tt.ran {
				noted, err := os.ReadFile(filepath.Join(dir, test) + ".ran")
				if err != nil || len(noted) != want {
					t.Errorf("%s ran %d times, want %d: %v", test, len(noted), want, err)
				}
			}
		})
	}
}

// Many tests that fail at once are no accident.
func TestManyFailures(t *testing.T) {
	many := failure{path: "example.com/m/docs"}
	for range most {
		many.tests = append(many.tests, "TestX")
	}
	if why := refused([]failure{many}); why != "" {
		t.Error(why)
	}
	if why := refused([]failure{many, {path: "example.com/m/docs", tests: []string{"TestY"}}}); why == "" {
		t.Error("one more is tried again")
	}
}
