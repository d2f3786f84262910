package config

import (
	"crypto/sha256"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/shardctl/shardctl/internal/decode"
)

// Load reads a configuration from files and directories, in that order. The error is of type [decode.Errors] and has
// everything that is wrong at once. It never quotes a password or what a variable holds.
//
// The variables and files that a task's runner refers to are not read, but variables must be set by now.
func Load(paths []string, opts Options) (*Config, error) {
	c, _, err := loadAll(paths, opts)
	return c, err
}

// loadAll is [Load], with the fingerprint of what was read.
func loadAll(paths []string, opts Options) (*Config, [sha256.Size]byte, error) {
	l := &loader{
		fieldReader: fieldReader{&decode.Reader{}, opts}, schema: compiled(opts.Kinds, opts.Listers), sum: newSum(),
	}
	files, errs := findFiles(paths, opts.Stdin != nil)
	l.Errs, l.partial = errs, len(errs) > 0
	for _, err := range errs {
		l.sum.add(err.File, nil, err)
	}
	var roots []*decode.Node
	for _, file := range files {
		if root := l.read(file); root != nil {
			roots = append(roots, root)
		}
	}
	if len(roots) == 0 && len(l.Errs) == 0 {
		l.Errs = append(l.Errs,
			decode.Error{File: files[0], Line: 1, Col: 1, Message: "is empty, store.uri is required"})
	}
	c := &Config{Files: files, seen: l.sum.sum()}
	if len(roots) > 0 {
		c.Settings, c.source = settingsReader{l.fieldReader, l.partial}.settings(join(roots, &l.Problems), roots)
	}
	if len(l.Errs) > 0 {
		return nil, c.seen, l.Errs.Ordered(files)
	}
	c.Warnings = l.Warnings.Ordered(files)
	return c, c.seen, nil
}

// loader reads files into nodes that have passed the schema.
type loader struct {
	fieldReader
	schema *jsonschema.Schema
	sum    sum // of what was read
	// partial says that a file could not be read: what is missing may stand there.
	partial bool
}

func (l *loader) read(file string) *decode.Node {
	content, err := l.content(file)
	l.sum.add(file, content, err)
	if err != nil {
		l.Errs, l.partial = append(l.Errs, decode.Error{File: file, Message: err.Error()}), true
		return nil
	}
	before := len(l.Errs)
	root := parse(file, content, l.schema, &l.Problems)
	if root == nil {
		l.partial = l.partial || len(l.Errs) > before
		return nil
	}
	l.expandAll(root)
	check(root, l.schema, &l.Problems)
	return root
}

func (l *loader) content(file string) ([]byte, error) {
	if file == stdinName && l.opts.Stdin != nil {
		return readAll(l.opts.Stdin)
	}
	return readFile(file)
}

// join makes one mapping of several files, less their groups. Everything in it stands once, but version, which is of
// each file.
func join(roots []*decode.Node, p *decode.Problems) *decode.Node {
	joined := &decode.Node{Shape: decode.Mapping, Index: -1, Place: decode.Place{File: roots[0].File, Line: 1, Col: 1}}
	for _, root := range roots {
		for _, e := range root.Entries {
			if e.Name == "groups" || e.Value.Shape == decode.Void {
				continue
			}
			if first := joined.Get(e.Name); first != nil {
				if e.Name != "version" {
					p.AddAt(e.Place, e.Name, "stands in %s as well: it may stand in one file", first.Place)
				}
				continue
			}
			joined.Entries = append(joined.Entries, e)
		}
	}
	return joined
}
