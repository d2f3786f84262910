package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Options are what a configuration is read with.
type Options struct {
	// Env finds variables, as [os.LookupEnv] does.
	Env decode.Lookup
	// Kinds are what tasks may run.
	Kinds *kind.Set[kind.Kind]
	// Listers are what discover may ask; nil: none.
	Listers *kind.Set[discover.Kind]
	// Callbacks are those that tasks may name; nil: it is not checked.
	Callbacks *tasks.Registry
	// Stdin is what the path - stands for; nil: a file of that name.
	Stdin io.Reader
}

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
	l.check(root)
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

// stdinName stands for standard input in errors.
const stdinName = "<stdin>"

// maxFile bounds a configuration file.
const maxFile = 16 << 20

// findFiles lists the files that paths mean: files as they are, of directories the *.yaml and *.yml in them. Those
// whose names begin with a dot are left out. They are in order of names. A file that is meant twice is listed once.
func findFiles(paths []string, stdin bool) ([]string, decode.Errors) {
	if len(paths) == 0 {
		return nil, decode.Errors{{Message: "no configuration is given, name a file or directory with --config"}}
	}
	var files []string
	var errs decode.Errors
	for _, path := range paths {
		if path == "-" && stdin {
			if !slices.Contains(files, stdinName) {
				files = append(files, stdinName)
			}
			continue
		}
		found, err := filesAt(path)
		if err != nil {
			errs = append(errs, decode.Error{File: path, Message: err.Error()})
		}
		for _, file := range found {
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files, errs
}

func filesAt(path string) ([]string, error) {
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, unreadable(err)
	}
	var files []string
	for _, e := range entries {
		if !isConfigName(e.Name()) {
			continue
		}
		file := filepath.Join(path, e.Name())
		// A ConfigMap's files are symlinks: what counts is what they lead to. One that leads nowhere is an error when
		// it is read.
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			continue
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, errors.New("the directory holds no configuration, a file named *.yaml or *.yml is needed")
	}
	return files, nil
}

func isConfigName(name string) bool {
	ext := filepath.Ext(name)
	return !strings.HasPrefix(name, ".") && (ext == ".yaml" || ext == ".yml")
}

func readFile(path string) ([]byte, error) {
	// Opening a FIFO waits for a writer, perhaps for ever.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("is %s, want a regular file or a directory", kindOf(info.Mode()))
	}
	f, err := os.Open(path) //nolint:gosec // G304: reading the files that are named is what this is for
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = f.Close() }()
	return readAll(f)
}

func readAll(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, unreadable(err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("is larger than %d MiB, the most that is read", maxFile>>20)
	}
	return content, nil
}

// kindOf says in words what is there instead of a regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	default:
		return "no regular file"
	}
}

// unreadable leaves the path out, since it stands before the message.
func unreadable(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// sum is a hash of files: where it is equal nothing has changed.
type sum struct{ hash.Hash }

func newSum() sum { return sum{sha256.New()} }

func (s sum) add(file string, content []byte, err error) {
	_, _ = fmt.Fprintf(s, "%q %d %v\n", file, len(content), err) // a hash's Write never fails
	_, _ = s.Write(content)
}

func (s sum) sum() [sha256.Size]byte { return [sha256.Size]byte(s.Sum(nil)) }
