package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/variables"
)

var braceRange = regexp.MustCompile(`^([0-9]{1,9})\.\.([0-9]{1,9})$`)

// braceNames makes the names that a name with braces stands for, in order, the last braces changing fastest. Without
// braces it is the name itself. Braces hold a list {a,b} or a range {1..9}. A range with a leading zero, {01..99}, has
// names of equal width; one that falls, {9..1}, counts down.
//
// Nothing is made before it is measured: more than limit names are an error, and so is one that is longer than the name
// of a task may be.
func braceNames(pattern string, limit int) ([]string, error) {
	if !strings.ContainsAny(pattern, "{}") {
		return []string{pattern}, nil
	}
	parts, err := braceParts(pattern, limit)
	if err != nil {
		return nil, err
	}
	count := 1
	for _, choices := range parts {
		count *= len(choices)
	}
	names := make([]string, count)
	chosen := make([]int, len(parts))
	var name []byte
	for i := range names {
		name = name[:0]
		for p, choices := range parts {
			name = append(name, choices[chosen[p]]...)
		}
		names[i] = string(name)
		for p := len(parts) - 1; p >= 0; p-- { // count up
			if chosen[p]++; chosen[p] < len(parts[p]) {
				break
			}
			chosen[p] = 0
		}
	}
	return names, nil
}

// braceParts are what the names of a pattern are put together from, one choice of each part.
func braceParts(pattern string, limit int) (parts [][]string, err error) {
	count, longest := 1, 0
	for pattern != "" {
		literal, inside, after, err := nextBraces(pattern)
		if err != nil {
			return nil, err
		}
		parts = append(parts, []string{literal})
		longest += len(literal)
		if pattern = after; inside == "" {
			continue
		}
		choices, err := braceChoices(inside, limit)
		if err != nil {
			return nil, err
		}
		if count *= len(choices); count > limit {
			return nil, tooMany(limit)
		}
		parts = append(parts, choices)
		longest += len(slices.MaxFunc(choices, func(a, b string) int { return cmp.Compare(len(a), len(b)) }))
	}
	if longest > settings.MaxTaskName {
		return nil, fmt.Errorf("makes a name of %d bytes, must be %s", longest, settings.TaskNames)
	}
	return parts, nil
}

func hasBraces(pattern string) bool { return strings.Contains(pattern, "{") }

// nextBraces cuts off what stands before the next braces, and what stands in them; inside is empty when there are
// none.
func nextBraces(text string) (literal, inside, after string, err error) {
	open := strings.IndexAny(text, "{}")
	if open < 0 {
		return text, "", "", nil
	}
	if text[open] == '}' {
		return "", "", "", fmt.Errorf("has a } without a { before it")
	}
	end := strings.IndexAny(text[open+1:], "{}")
	if end < 0 {
		return "", "", "", fmt.Errorf("has a { without a } after it")
	}
	end += open + 1
	if text[end] == '{' {
		return "", "", "", fmt.Errorf("has braces within braces, allowed are several one after another")
	}
	inside = text[open+1 : end]
	if inside == "" {
		return "", "", "", badBraces(inside)
	}
	return text[:open], inside, text[end+1:], nil
}

func badBraces(inside string) error {
	return fmt.Errorf("has the braces {%s}, allowed are {a,b}, {1..9} and {01..99}", variables.Clipped(inside))
}

func tooMany(limit int) error {
	return fmt.Errorf("makes more than %d names, a group has at most %d", limit, settings.MaxNames)
}

func braceChoices(inside string, limit int) ([]string, error) {
	m := braceRange.FindStringSubmatch(inside)
	if m == nil {
		if !strings.Contains(inside, ",") {
			return nil, badBraces(inside)
		}
		if strings.Count(inside, ",") >= limit {
			return nil, tooMany(limit)
		}
		if strings.Contains(inside, ",,") {
			return nil, fmt.Errorf("has the braces {%s} with nothing between two commas", variables.Clipped(inside))
		}
		return strings.Split(inside, ","), nil
	}
	first, _ := strconv.Atoi(m[1]) // nine digits at most: they always fit
	last, _ := strconv.Atoi(m[2])
	count, step := last-first+1, 1
	if last < first {
		count, step = first-last+1, -1
	}
	if count > limit {
		return nil, tooMany(limit)
	}
	width := 0
	if padded(m[1]) || padded(m[2]) {
		width = max(len(m[1]), len(m[2]))
	}
	choices := make([]string, 0, count)
	for i := range count {
		choices = append(choices, fmt.Sprintf("%0*d", width, first+i*step))
	}
	return choices, nil
}

func padded(number string) bool { return len(number) > 1 && number[0] == '0' }
