package config

import (
	"bytes"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

var yamlLine = regexp.MustCompile(`^yaml: (?:line \d+: )?`)

// syntaxError is what the YAML reader says, at the place where it stops. What is open at the end of the file is told
// where it begins.
func syntaxError(file string, content []byte, decoder *yaml.Decoder, err error) decode.Error {
	message := yamlLine.ReplaceAllString(err.Error(), "")
	at := placeOf(content, decoder, message)
	return decode.Error{File: file, Line: at.line, Col: at.col, Message: "is not YAML: " + message}
}

// mark is a place in a file: its line and column from 1, and how many characters stand before it. Columns are counted
// in characters.
type mark struct{ line, col, index int }

func placeOf(content []byte, decoder *yaml.Decoder, message string) mark {
	state := stateOf(decoder)
	problem := state.mark("parser", "parser", "problem_mark")
	context := state.mark("parser", "parser", "context_mark")
	notText := state.number("parser", "parser", "problem_offset") // in bytes
	switch {
	case strings.HasPrefix(message, "unknown anchor"): // no error of the parser
		return state.mark("parser", "event", "start_mark")
	case notText > 0:
		return markOf(content, notText)
	case strings.HasSuffix(message, noColon): // the place is that of the next line
		return context
	case len(bytes.TrimSpace(content[offset(content, problem):])) > 0:
		return keyOf(content, problem, message)
	case context != problem:
		return context
	default:
		return opening(content, problem)
	}
}

// noColon is what the reader says of a key without a value.
const noColon = "could not find expected ':'"

// opening is where the mapping or list begins that is open at the end, and in which another value must follow. The
// reader says where once there is one.
func opening(content []byte, end mark) mark {
	decoder := yaml.NewDecoder(bytes.NewReader(append(bytes.Clone(content), "\nx"...)))
	for decoder.Decode(&yaml.Node{}) == nil {
	}
	at := stateOf(decoder).mark("parser", "parser", "context_mark")
	if begins := content[offset(content, at):]; len(begins) > 0 && (begins[0] == '[' || begins[0] == '{') {
		return at
	}
	return end
}

// keyOf is the place of the key where a value stands at a place that is not for one.
func keyOf(content []byte, at mark, message string) mark {
	end := offset(content, at)
	if !strings.HasPrefix(message, "did not find expected") || content[end] != ':' {
		return at
	}
	key := bytes.LastIndexAny(content[:end], " \t\r\n[]{},:\"'") + 1
	length := utf8.RuneCount(content[key:end])
	return mark{at.line, at.col - length, at.index - length}
}

// byteOrder may stand at the beginning, and is not counted.
var byteOrder = []byte("\ufeff")

// offset is a place in bytes.
func offset(content []byte, at mark) int {
	n := len(content) - len(bytes.TrimPrefix(content, byteOrder))
	for range at.index {
		_, size := utf8.DecodeRune(content[n:])
		n += size
	}
	return n
}

// markOf is the place of a byte.
func markOf(content []byte, offset int) mark {
	before := content[:min(offset, len(content))]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return mark{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(line), utf8.RuneCount(before)}
}

// state is a reader. It tells a line at most, and often the one in which the broken mapping or list begins. It knows
// more, and keeps it to itself: the fields are not exported. Where they are not there a place is the beginning. A test
// holds that they are.
type state struct{ decoder reflect.Value }

func stateOf(decoder *yaml.Decoder) state { return state{reflect.ValueOf(decoder)} }

func (s state) mark(path ...string) mark {
	number := func(name string) int { return s.number(append(slices.Clip(path), name)...) }
	return mark{1 + number("line"), 1 + number("column"), number("index")}
}

func (s state) number(path ...string) int {
	v := s.decoder
	for _, name := range path {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return 0
		}
		v = v.FieldByName(name)
	}
	if !v.CanInt() {
		return 0
	}
	return int(v.Int())
}
