package config

import "github.com/santhosh-tekuri/jsonschema/v6"

// Load reads a configuration from files and directories, in that order, with variables from env. The error is of type
// [Errors] and tells everything that is wrong at once. It never quotes a password or what a variable holds.
//
// The variables and files that a task's runner refers to are not read, but variables must be set by now.
func Load(paths []string, env func(name string) (value string, ok bool)) (*Settings, error) {
	l := &loader{env: env, names: map[string]*node{}, sum: newSum()}
	files, errs := findFiles(paths)
	l.errs, l.partial = errs, len(errs) > 0
	var roots []*node
	for _, file := range files {
		if root := l.read(file); root != nil {
			roots = append(roots, root)
		}
	}
	if len(roots) == 0 && len(l.errs) == 0 {
		l.errs = append(l.errs, Error{File: files[0], Line: 1, Col: 1, Message: "is empty, store.uri is required"})
	}
	var s *Settings
	if len(roots) > 0 {
		s = l.settings(join(roots, &l.problems), roots)
		s.Files, s.seen = files, l.sum.sum()
	}
	if len(l.errs) > 0 {
		return nil, l.errs.ordered(files)
	}
	return s, nil
}

// loader builds settings out of nodes.
type loader struct {
	problems
	env   Lookup
	scope Lookup           // what a task's own variables hold, while one is built
	names map[string]*node // where each key GROUP/NAME is written
	sum   sum              // of what was read
	// partial says that a file could not be read: what is missing may stand there.
	partial bool
}

func (l *loader) read(file string) *node {
	content, err := readFile(file)
	l.sum.add(file, content, err)
	if err != nil {
		l.errs, l.partial = append(l.errs, Error{File: file, Message: err.Error()}), true
		return nil
	}
	before := len(l.errs)
	root := parse(file, content, &l.problems)
	if root == nil {
		l.partial = l.partial || len(l.errs) > before
		return nil
	}
	expandAll(root, l.env, &l.problems)
	check(root, &l.problems)
	return root
}

// join makes one mapping of several files, less their groups. Everything in it stands once, but version, which is of each file.
func join(roots []*node, p *problems) *node {
	joined := &node{kind: mapping, index: -1, file: roots[0].file, line: 1, col: 1}
	for _, root := range roots {
		for _, e := range root.entries {
			if e.name == "groups" || e.value.kind == void {
				continue
			}
			if first := joined.get(e.name); first != nil {
				if e.name != "version" {
					p.addAt(&node{file: root.file, line: e.line, col: e.col}, e.name,
						"stands in %s as well: it may stand in one file", first.place())
				}
				continue
			}
			joined.entries = append(joined.entries, e)
		}
	}
	return joined
}

// value is the final text of a scalar; false when it is left out, or wrong, which is then told.
func (l *loader) value(n *node) (string, bool) {
	switch {
	case n == nil || n.kind != scalar || n.bad:
		return "", false
	case n.settled:
		return n.text, true
	}
	// It holds a task's own variables: it could not be checked before.
	own := *n
	own.settled = false
	expandOne(&own, l.scope, &l.problems)
	if own.bad || own.kind == void {
		n.bad = own.bad
		return "", false
	}
	if !valid(n.schema, own.value()) {
		l.refuse(n, allowed(n.schema))
		return "", false
	}
	return own.text, true
}

func valid(s *jsonschema.Schema, value any) bool { return s == nil || s.Validate(value) == nil }
