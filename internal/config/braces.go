package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// MaxNames bounds the tasks of a group.
const MaxNames = 100_000

var braceRange = regexp.MustCompile(`^([0-9]{1,9})\.\.([0-9]{1,9})$`)

// braceNames makes the names that a name with braces stands for, in order, the last braces changing fastest. Without
// braces it is the name itself. Braces hold a list {a,b} or a range {1..9}. A range with a leading zero, {01..99}, has
// names of equal width; one that falls, {9..1}, counts down. At most limit names are made: more are an error.
func braceNames(pattern string, limit int) ([]string, error) {
	names := []string{""}
	rest := pattern
	for rest != "" {
		literal, inside, after, err := nextBraces(rest)
		if err != nil {
			return nil, err
		}
		for i := range names {
			names[i] += literal
		}
		rest = after
		if inside == "" {
			continue
		}
		choices, err := braceChoices(inside, limit)
		if err != nil {
			return nil, err
		}
		if len(names)*len(choices) > limit {
			return nil, tooMany(limit)
		}
		product := make([]string, 0, len(names)*len(choices))
		for _, name := range names {
			for _, choice := range choices {
				product = append(product, name+choice)
			}
		}
		names = product
	}
	return names, nil
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
	return fmt.Errorf("has the braces {%s}, allowed are {a,b}, {1..9} and {01..99}", decode.Clipped(inside))
}

func tooMany(limit int) error {
	return fmt.Errorf("makes more than %d names, a group has at most %d", limit, MaxNames)
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
			return nil, fmt.Errorf("has the braces {%s} with nothing between two commas", decode.Clipped(inside))
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
