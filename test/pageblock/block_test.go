package pageblock_test

import (
	"slices"
	"testing"

	"github.com/shardctl/shardctl/test/pageblock"
)

const page = "# Title\n\n<!-- shown: full -->\n```console\n$ shardctl status # exit code 1\ncluster a\n$ shardctl " +
	"get tasks \\\n    -o wide\n```\n\n```sh\n# a comment\nmake build\n```\n"

func TestBlocks(t *testing.T) {
	blocks := pageblock.Blocks("a.md", page)
	if len(blocks) != 2 || blocks[0].Directive != "shown: full" || blocks[0].Line != 3 || blocks[1].Directive != "" {
		t.Fatalf("%+v", blocks)
	}
	want := []pageblock.Command{
		{Text: "shardctl status # exit code 1", Output: "cluster a\n"}, {Text: "shardctl get tasks -o wide"},
	}
	if got := blocks[0].Commands(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := blocks[1].Commands(); !blocks[1].Shell() ||
		!slices.Equal(got, []pageblock.Command{{Text: "make build"}}) {
		t.Errorf("%+v", got)
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		`shardctl drain a --reason "a new kernel"`: {"shardctl", "drain", "a", "--reason", "a new kernel"},
		`a 'b #c' # d`:                    {"a", "b #c"},
		`a -o jsonpath='{.items[*].key}'`: {"a", "-o", "jsonpath={.items[*].key}"},
		`a|b ""`:                          {"a", "|", "b", ""},
	} {
		if got := pageblock.Words(text); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestPattern(t *testing.T) {
	for _, test := range []struct {
		shown, got string
		want       bool
	}{
		{"a  b\n", "a b\n", true},
		{"a b\n", "a     b  \n", true},
		{"a b\n", "ab\n", false},
		{"a … c\n", "a 17 min c\n", true},
		{"a … c\n", "a\nc\n", false},
		{"a\n…\nc\n", "a\nb\nd\nc\n", true},
		{"a\n…\nc\n", "a\nc\n", true},
		{"a\n…\n", "b\n", false},
		{"a\n", "a\nb\n", false},
		{"1.5 (x)\n", "1.5 (x)\n", true},
		{"1.5\n", "105\n", false},
	} {
		if got := pageblock.Pattern(test.shown).MatchString(test.got); got != test.want {
			t.Errorf("%q shows %q: %v, want %v", test.shown, test.got, got, test.want)
		}
	}
}
