package listers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
)

//go:embed file.json
var fileSchema string

// FileKind reads listers of files from a configuration.
type FileKind struct{}

// Name is "file".
func (FileKind) Name() string { return "file" }

// Schema is that of the mapping with path.
func (FileKind) Schema() string { return fileSchema }

// Parse reads a File.
func (FileKind) Parse(n *decode.Node, r *decode.Reader) discover.Lister {
	r.CheckStart(n, nil)
	return File{Path: r.Text(n.Get("path"), "")}
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
	content, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Path, err)
	}
	var found []discover.Found
	switch filepath.Ext(path) {
	case ".json":
		found, err = discover.ParseJSON(content)
	case ".yaml", ".yml":
		found, err = discover.ParseYAML(content)
	default:
		found = discover.ParseLines(content)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Path, err)
	}
	return found, nil
}

func read(path string) ([]byte, error) {
	// Opening a FIFO waits for a writer, perhaps for ever.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	f, err := os.Open(path) //nolint:gosec // G304: reading the file that the configuration names is what this is for
	if err != nil {
		return nil, withoutPath(err)
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, discover.MaxSize+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if len(content) > discover.MaxSize {
		return nil, fmt.Errorf("is larger than %d MiB, the most that is read", discover.MaxSize>>20)
	}
	return content, nil
}

// withoutPath leaves the path out, since variables may have brought it in.
func withoutPath(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
