package config

import (
	"io"

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

// fieldReader reads the fields that have forms of their own.
type fieldReader struct {
	*decode.Reader
	opts Options
}

// matching reads text that has a form. The schema lets through what holds "$(", since that may have been a variable;
// here it is final.
func (l fieldReader) matching(is func(string) bool, n *decode.Node, unset string) string {
	text := l.Text(n, unset)
	if n != nil && !n.Bad && n.Shape == decode.Scalar && !is(text) {
		l.Refuse(n, n.Rule.Allowed())
	}
	return text
}

// listReader builds the task lists out of nodes.
type listReader struct {
	fieldReader
	names map[string]*decode.Node // where each key GROUP/NAME is written
}

// parts is a group as it stands in the files: joined when it is named in several.
type parts struct {
	name     string
	node     *decode.Node // where it is named first
	cap      *decode.Node
	selector *decode.Node
	defaults *decode.Node
	discover *decode.Node
	template *decode.Node
	weights  *decode.Node
	slots    *decode.Node
	tasks    []*decode.Node
}
