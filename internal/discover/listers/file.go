package listers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
)

//go:embed file.json
var fileSchema string

// FileKind reads listers of files from a configuration.
var FileKind = decode.Kind[discover.Lister]{
	Field: "file",
	Form:  func() string { return fileSchema },
	Read: func(n *decode.Node, r *decode.Reader) discover.Lister {
		r.CheckStart(n, nil)
		return File{Path: r.Text(n.Get("path"), "")}
	},
}

// File reads a file at each look. By its name it is .json, .yaml or .yml; any other has a name on each line.
type File struct {
	Path string // as written: $(NAME) in it is replaced at each look
}

// Kind is "file".
func (File) Kind() string { return "file" }

// Validate checks that there is a path.
func (l File) Validate() []decode.FieldError {
	if l.Path == "" {
		return []decode.FieldError{{Path: []string{"path"}, Message: "is required: the file that lists names"}}
	}
	return nil
}

// Print shows the path.
func (l File) Print() any { return decode.Pairs("path", l.Path) }

// List reads the file. One that is missing is an error, and not an empty list.
func (l File) List(_ context.Context, env discover.Env) ([]discover.Found, error) {
	path, err := env.Expand("file.path", l.Path)
	if err != nil {
		return nil, err
	}
	found, err := read(path)
	if at, ok := errors.AsType[*fs.PathError](err); ok { // variables may have brought the path in
		err = fmt.Errorf("cannot be read: %w", at.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Path, err)
	}
	return found, nil
}

func read(path string) ([]discover.Found, error) {
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // opening a FIFO waits for a writer, perhaps for ever
		return nil, errors.New("is not a regular file")
	}
	f, err := os.Open(path) //nolint:gosec // G304: reading the file that the configuration names is what this is for
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	switch filepath.Ext(path) {
	case ".json":
		return readJSON(f)
	case ".yaml", ".yml":
		return readYAML(f)
	default:
		return readLines(f)
	}
}
