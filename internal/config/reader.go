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
