// Package assign is the kind of task that the application beside the replica runs.
package assign

import (
	"context"
	"errors"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// name is the field of a task that chooses this kind.
const name = "assign"

// Runner gives the task's key to the application for as long as it is owned.
type Runner struct{}

// Kind is "assign".
func (Runner) Kind() string { return name }

// NeedsRestart says no: there is nothing that may differ.
func (Runner) NeedsRestart(tasks.Runner) bool { return false }

var errNoApplication = errors.New("there is no application: the configuration needs app")

// Run returns once nothing of the key runs in the application.
func (Runner) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	if env.Assign == nil {
		return tasks.NotStarted(ctx, errNoApplication)
	}
	return tasks.Ended(ctx, env.Assign(ctx, env))
}

// Validate finds nothing.
func (Runner) Validate(kind.Use) []decode.FieldError { return nil }

// Print is an empty mapping.
func (Runner) Print(kind.Use) any { return decode.Fields{} }

// Kind reads runners from a configuration.
type Kind struct{}

// Name is "assign".
func (Kind) Name() string { return name }

// Schema is an empty mapping.
func (Kind) Schema() string {
	return `{
  "description": "Is run by the application beside the replica, see app.",
  "$comment": "an empty mapping, {}",
  "type": "object",
  "additionalProperties": false
}`
}

// Fields are those of work without ticks.
func (Kind) Fields() kind.Fields { return kind.Fields{Owned: kind.FieldsOfWork().Owned} }

// Parse reads a Runner.
func (Kind) Parse(*decode.Node, *decode.Reader) kind.Runner { return Runner{} }
