package config

import (
	"regexp"
	"strconv"
	"time"
)

// The readers of fields. Each gives what is written, or the default when the field is left out or wrong.

func (l *loader) text(n *node, unset string) string {
	if text, ok := l.value(n); ok {
		return text
	}
	return unset
}

func (l *loader) duration(n *node, unset time.Duration) time.Duration {
	text, ok := l.value(n)
	if !ok {
		return unset
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		l.refuse(n, "a duration such as 20s, 5m or 1h30m, of less than 290 years")
		return unset
	}
	return d
}

// positive is duration for fields in which 0s makes no sense; instead says what to write for what may have been meant.
func (l *loader) positive(n *node, unset time.Duration, instead string) time.Duration {
	d := l.duration(n, unset)
	if d <= 0 && n != nil && !n.bad {
		l.refuse(n, "more than 0s"+instead)
		return unset
	}
	return d
}

func (l *loader) number(n *node) int64 {
	text, ok := l.value(n)
	if !ok {
		return 0
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		l.refuse(n, allowed(n.schema))
		return 0
	}
	return i
}

// count is 0 where the field is left out.
func (l *loader) count(n *node) int { return int(l.number(n)) }

func (l *loader) truth(n *node) bool {
	text, _ := l.value(n)
	return truths[text]
}

func (l *loader) texts(n *node) map[string]string {
	if n == nil || n.kind != mapping || len(n.entries) == 0 {
		return nil
	}
	m := make(map[string]string, len(n.entries))
	for _, e := range n.entries {
		if text, ok := l.value(e.value); ok {
			m[e.name] = text
		}
	}
	return m
}

var (
	labelName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
	dnsName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
)

func (l *loader) labels(n *node) map[string]string {
	labels := l.texts(n)
	if n == nil {
		return labels
	}
	for _, e := range n.entries {
		if !labelName.MatchString(e.name) {
			l.addAt(&node{file: n.file, line: e.line, col: e.col}, under(n.field(), e.name),
				"the name of a label must be at most 253 letters, digits, '-', '_', '.' and '/', beginning and ending with a letter or digit")
		}
		if text, ok := labels[e.name]; ok && !labelValue.MatchString(text) {
			l.refuse(e.value, allowed(e.value.schema))
		}
	}
	return labels
}

// label reads what is written like the value of a label, or empty. As for dns, the schema lets through what holds "$(".
func (l *loader) label(n *node) string {
	text := l.text(n, "")
	if n != nil && !n.bad && !labelValue.MatchString(text) {
		l.refuse(n, allowed(n.schema))
	}
	return text
}

// dns reads a name. The schema lets through what holds "$(", since that may have been a variable; here it is final.
func (l *loader) dns(n *node, unset string) string {
	name := l.text(n, unset)
	if n != nil && !n.bad && n.kind == scalar && !dnsName.MatchString(name) {
		l.refuse(n, allowed(n.schema))
	}
	return name
}
