package config

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/settings"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

func TestBraceNames(t *testing.T) {
	for pattern, want := range map[string]string{
		"a":              "a",
		"a-{b,c}":        "a-b a-c",
		"{b,c}":          "b c",
		"{1..3}":         "1 2 3",
		"{8..11}x":       "8x 9x 10x 11x",
		"{08..11}":       "08 09 10 11",
		"{01..3}":        "01 02 03",
		"{1..003}":       "001 002 003",
		"{0..2}":         "0 1 2",
		"{3..1}":         "3 2 1",
		"{5..5}":         "5",
		"{a,b}-{1..2}":   "a-1 a-2 b-1 b-2",
		"{a,b}{c,d}{e,}": "ace ac ade ad bce bc bde bd",
		"{1..2,x}":       "1..2 x",
		"{-1,b}":         "-1 b",
	} {
		got, err := braceNames(pattern, settings.MaxNames)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s makes %q, %v, want %s", pattern, got, err, want)
		}
	}
}

// What would make names that no task may have, or more than are allowed, is refused before any is made.
func TestBracesAreMeasured(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	for pattern, want := range map[string]string{
		"{1..100000}" + long:                          "makes a name of 20006 bytes, must be at most 249 letters",
		long + "{1..100000}":                          "makes a name of 20006 bytes",
		"{a," + long + "}{1..50000}":                  "makes a name of 20005 bytes",
		"{1..100000}" + strings.Repeat("{1..1}", 249): "makes a name of 255 bytes",
		strings.Repeat("{a,b}", 4_000):                "makes more than 100000 names",
		strings.Repeat("{1..100000}", 2_000):          "makes more than 100000 names",
		"{1..100000}" + strings.Repeat("{9..1}", 200): "makes more than 100000 names",
		"{" + strings.Repeat(",a", 100_000) + "}":     "makes more than 100000 names",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		names, err := braceNames(pattern, settings.MaxNames)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s… makes %d names, %v; want %s", pattern, len(names), err, want)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 32 {
			t.Errorf("%.40s… took %d MiB", pattern, mib)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if names, err := braceNames("{1..100000}"+strings.Repeat("{1..1}", 240), settings.MaxNames); err != nil ||
		len(names) != settings.MaxNames {
		t.Errorf("%d names, %v", len(names), err)
	}
	runtime.ReadMemStats(&after)
	if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 64 {
		t.Errorf("100,000 of the longest names took %d MiB", mib)
	}
	longest := "{" + strings.Repeat("x", 248) + ",y}{1..9}"
	if names, err := braceNames(longest, settings.MaxNames); err != nil || len(names) != 18 ||
		len(names[0]) != settings.MaxTaskName || !settings.IsTaskName(names[0]) || settings.IsTaskName(names[0]+"x") {
		t.Errorf("%d names, %v", len(names), err)
	}
}

func TestIndexIsThePlaceInTheBraces(t *testing.T) {
	s := load(t, group("      - {name: '{a,b}-{08..10}', callback: f}\n      - {name: plain, callback: f}\n"))
	var got []string
	for _, task := range s.Groups[0].Tasks {
		got = append(got, task.Name+"="+task.Index)
	}
	want := "a-08=0 a-09=1 a-10=2 b-08=3 b-09=4 b-10=5 plain="
	if strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestBraceNamesAgainstProduct builds patterns out of parts, and their names by counting through the parts.
func TestBraceNamesAgainstProduct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pattern strings.Builder
		var parts [][]string
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			text, choices := drawPart(t)
			pattern.WriteString(text)
			parts = append(parts, choices)
		}
		total := 1
		for _, choices := range parts {
			total *= len(choices)
		}
		want := make([]string, total)
		for i := range want {
			rest := i
			for _, choices := range slices.Backward(parts) {
				want[i] = choices[rest%len(choices)] + want[i]
				rest /= len(choices)
			}
		}
		got, err := braceNames(pattern.String(), total)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s makes %q, %v, want %q", pattern.String(), got, err, want)
		}
		if _, err := braceNames(pattern.String(), total-1); err == nil && total > 1 {
			t.Fatalf("%s makes %d names although %d are allowed", pattern.String(), total, total-1)
		}
	})
}

// drawPart is a piece of a pattern, and what it may become.
func drawPart(t *rapid.T) (text string, choices []string) {
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		text = rapid.StringMatching(`[a-z0-9._-]{1,5}`).Draw(t, "literal")
		return text, []string{text}
	case 1:
		choices = rapid.SliceOfN(rapid.StringMatching(`[a-z]{0,3}`), 2, 5).Draw(t, "choices")
		for i := 1; i < len(choices)-1; i++ {
			choices[i] += "x" // nothing may stand at an end, not between two commas
		}
		return "{" + strings.Join(choices, ",") + "}", choices
	default:
		first, count := rapid.IntRange(0, 150).Draw(t, "first"), rapid.IntRange(1, 15).Draw(t, "count")
		width := rapid.IntRange(1, 5).Draw(t, "width")
		from, to := fmt.Sprintf("%0*d", width, first), strconv.Itoa(first+count-1)
		if !padded(from) {
			width = 1
		}
		for i := range count {
			choices = append(choices, fmt.Sprintf("%0*d", max(width, widthOf(from, to)), first+i))
		}
		return "{" + from + ".." + to + "}", choices
	}
}

func widthOf(from, to string) int {
	if padded(from) {
		return max(len(from), len(to))
	}
	return 1
}

func FuzzBraces(f *testing.F) {
	for _, pattern := range []string{"a-{1..9}", "{a,b}{01..99}", "{", "}", "{{}}", "{,}", "{9..1}", "{1..999999999}"} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		names, err := braceNames(pattern, 1000)
		if err == nil && (len(names) == 0 || len(names) > 1000) {
			t.Errorf("%q makes %d names", pattern, len(names))
		}
		for _, name := range names {
			if strings.ContainsAny(name, "{}") {
				t.Errorf("%q makes %q", pattern, name)
			}
		}
	})
}
