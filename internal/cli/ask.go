package cli

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// asking is a change on its way to a replica or a store.
type asking struct {
	request operate.Request
	which   *snapshot.Selection // the tasks meant; nil: the request names what it is about
}

// do asks for the change and says what became of it.
func (c *change) do(cmd *cobra.Command, a asking) error {
	r := &a.request
	r.Verb, r.For, r.Reason, r.By, r.ID = c.verb.Name, c.lasts, c.reason, osUser(), uuid.NewString()
	if err := r.Validate(); err != nil {
		return usage("%s: %w", c.verb.Name, err)
	}
	ask := c.askReplica
	if c.globals.isOffline() {
		ask = c.askStore
	}
	result, err := ask(cmd, a)
	if err != nil {
		return err
	}
	return c.report(cmd, *r, result)
}

// askStore writes to the store itself.
func (c *change) askStore(cmd *cobra.Command, a asking) (api.ChangeResult, error) {
	ctx, cancel := cmd.Context(), func() {}
	if c.globals.requestTimeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, c.globals.requestTimeout)
	}
	defer cancel()
	return c.globals.Change(ctx, c.globals.config, a.request, func(s *snapshot.Cluster) ([]string, error) {
		if a.which == nil {
			return a.request.Names, nil
		}
		keys := s.Select(*a.which)
		if len(keys) == 0 {
			return nil, errors.New("no declared task matches")
		}
		return keys, nil
	}, c.dryRun)
}

// askReplica asks a replica.
func (c *change) askReplica(cmd *cobra.Command, a asking) (api.ChangeResult, error) {
	replica, err := c.globals.Client(cmd.Context())
	if err != nil {
		return api.ChangeResult{}, err
	}
	body := api.ChangeRequest{
		Instance: a.request.To, Strict: a.request.Strict, Reason: a.request.Reason, By: a.request.By, DryRun: c.dryRun,
		ID: a.request.ID,
	}
	if c.lasts != 0 {
		body.For = c.lasts.String()
	}
	ctx, name := cmd.Context(), a.request.Names[0]
	var result *api.ChangeResult
	switch a.request.Scope {
	case record.ScopeInstance:
		result, err = replica.Instances().Change(ctx, c.verb.Name, name, body)
		err = suggest(ctx, replica, instances().names, name, err)
	case record.ScopeGroup:
		result, err = replica.Groups().Change(ctx, c.verb.Name, name, body)
		err = suggest(ctx, replica, groups().names, name, err)
	default:
		tasks := client.Selection{Tasks: a.which.Patterns, Selector: c.selector}
		result, err = replica.Tasks().Change(ctx, c.verb.Name, tasks, body)
	}
	var some *client.RefusedError // each of them is reported
	if err != nil && !errors.As(err, &some) {
		return api.ChangeResult{}, c.globals.explain(cmd, replica, err)
	}
	return *result, nil
}

// report says what became of each name: what is done on stdout, what is refused as an error.
func (c *change) report(cmd *cobra.Command, request operate.Request, result api.ChangeResult) error {
	var out strings.Builder
	note := ""
	if c.lasts > 0 {
		note = " for " + c.lasts.String()
	}
	past := c.verb.Help.Past + note
	if note = ""; c.dryRun {
		note = " (dry run)"
	}
	for _, name := range result.Changed {
		fmt.Fprintf(&out, "%s %s %s%s\n", request.Scope, Printable(name), past, note)
	}
	for _, name := range result.Unchanged {
		fmt.Fprintf(&out, "%s %s unchanged%s\n", request.Scope, Printable(name), note)
	}
	if c.dryRun {
		out.WriteString(movesText(result.Moves))
	}
	if _, err := cmd.OutOrStdout().Write([]byte(out.String())); err != nil {
		return err
	}
	return refused(request, result.Refused)
}

// shownRefusals is how many refusals fit on a line.
const shownRefusals = 5

func refused(request operate.Request, all []api.Refusal) error {
	if len(all) == 0 {
		return nil
	}
	var lines []string
	for _, r := range all[:min(len(all), shownRefusals)] {
		lines = append(lines, fmt.Sprintf("%s %s: %s (%s)", request.Scope, r.Name, r.Message, r.Reason))
	}
	if more := len(all) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("refused: %s", strings.Join(lines, "; "))
}

func movesText(moves []api.PlannedMove) string {
	if len(moves) == 0 {
		return "nothing would move\n"
	}
	var out strings.Builder
	for _, m := range moves {
		line := fmt.Sprintf("%s would move from %s to %s", m.Key, m.From, m.To)
		switch {
		case m.From == "" && m.To == "":
			line = m.Key + " would stay unassigned"
		case m.From == "":
			line = fmt.Sprintf("%s would be claimed by %s", m.Key, m.To)
		case m.To == "":
			line = fmt.Sprintf("%s would stop on %s and be unassigned", m.Key, m.From)
		}
		out.WriteString(Printable(line) + "\n")
	}
	return out.String()
}

// osUser is who runs the command.
func osUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}
