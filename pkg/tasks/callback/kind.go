package callback

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Kind reads names of callbacks from a configuration.
type Kind struct{}

// Name is "callback".
func (Kind) Name() string { return Name }

// Schema is text.
func (Kind) Schema() string {
	return `{"description": "Calls a Go function registered under this name.", "$ref": "#/$defs/text"}`
}

// Fields are those of work.
func (Kind) Fields() tasks.Fields { return tasks.FieldsOfWork() }

// Parse reads a Runner.
func (Kind) Parse(n *decode.Node, r *decode.Reader) tasks.Runner { return Runner(r.Text(n, "")) }

// Validate checks that a function of that name is registered.
func (r Runner) Validate(use tasks.Use) []decode.FieldError {
	if r == "" {
		return []decode.FieldError{{Message: "is empty, must be a name registered in Go"}}
	}
	if use.Callbacks == nil {
		return nil
	}
	if _, ok := use.Callbacks.Lookup(string(r)); ok {
		return nil
	}
	names := use.Callbacks.Names()
	if len(names) == 0 {
		message := fmt.Sprintf("is %q, but this program has no callbacks: "+
			"they are registered in Go, by a service that embeds pkg/tasks", decode.Clipped(string(r)))
		return []decode.FieldError{{Message: message}}
	}
	return []decode.FieldError{{Must: "one of those registered in Go: " + strings.Join(names, ", ")}}
}

// Print is the name.
func (r Runner) Print(tasks.Use) any { return string(r) }
