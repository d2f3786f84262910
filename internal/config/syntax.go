package config

import (
	"bytes"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

var yamlLine = regexp.MustCompile(`^yaml: (?:line \d+: )?`)

// syntaxError is what the YAML reader says, at the place where it stops. The reader itself names a line at most, and
// often the one in which the broken mapping or list begins.
func syntaxError(file string, content []byte, err error) decode.Error {
	before := content[:stop(content, err.Error())]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return decode.Error{
		File: file, Line: 1 + bytes.Count(before, []byte("\n")), Col: 1 + utf8.RuneCount(line),
		Message: "is not YAML: " + yamlLine.ReplaceAllString(err.Error(), ""),
	}
}

// closers end what a beginning of a file may leave open.
var closers = []string{"", ":", "]", "}", "]]", "}}", "]}", "}]", "]]]", "}}}"}

// noColon is what the reader says, before anything else, of a beginning that ends within a key.
const noColon = "could not find expected ':'"

// stop is where the reader stops. It goes from left to right, so that what follows makes no difference. The place is
// the end of the shortest beginning of the content that it refuses in the same words, however that is closed. What is
// open at the end of the file begins at the end of the shortest beginning that cannot be a whole file.
func stop(content []byte, message string) int {
	end := sort.Search(len(content), func(n int) bool {
		same := false
		for _, closer := range closers {
			switch said := refusal(content[:n], closer); {
			case said == message:
				same = true
			case !strings.HasSuffix(said, noColon):
				return false
			}
		}
		return same
	})
	if end == len(content) && refusal(content, "]") != message {
		end = sort.Search(len(content), func(n int) bool { return refusal(content[:n], "") != "" })
	}
	return wordStart(content, end, message)
}

// refusal is what the reader says of a text, empty when it takes it.
func refusal(content []byte, closer string) string {
	decoder := yaml.NewDecoder(bytes.NewReader(append(slices.Clip(content), closer...)))
	for range 2 { // of several documents the second is read, to refuse it
		var doc yaml.Node
		if err := decoder.Decode(&doc); err != nil {
			return strings.TrimPrefix(err.Error(), "EOF")
		}
	}
	return ""
}

// wordStart is where the word begins, or the punctuation stands, that ends at end. Where a key is not expected, it
// is the key.
func wordStart(content []byte, end int, message string) int {
	before := strings.TrimRight(string(content[:end]), " \r\n")
	if strings.Contains(message, "did not find expected") {
		before = strings.TrimSuffix(before, ":")
	}
	if before == "" {
		return 0
	}
	if word := strings.LastIndexAny(before, " \t\r\n[]{},:\"'"); word < len(before)-1 {
		return word + 1
	}
	return len(before) - 1
}
