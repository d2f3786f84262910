package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

func statusCommand(g *Globals) *cobra.Command {
	var watch bool
	var o Output
	cmd := finish(&cobra.Command{
		Use:   "status",
		Short: "Show groups, instances, and what is wrong and why, on one screen",
		Long: `Show groups, instances, and what is wrong and why, on one screen.

With -w a terminal shows the cluster live until Ctrl-C: what each group and instance has, problems, and moves as they
happen. Elsewhere the screen is printed once, and then a line with the time of day for each change.` + staleHelp,
		Example: "  shardctl status\n  shardctl status -w\n  shardctl status -o jsonpath='{.problems[*].reason}'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && g.isOffline() {
				return usage("-w needs a replica to watch; leave out --config")
			}
			if watch && o.format != formatTable && o.format != formatJSON {
				return usage("-w goes with -o table or json")
			}
			client, err := g.Client(cmd.Context())
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case watch && o.format == formatJSON:
				err = g.streamStatus(cmd.Context(), client, out, cmd.ErrOrStderr())
			case watch:
				err = g.followStatus(cmd.Context(), client, out, cmd.ErrOrStderr())
			default:
				err = g.showStatus(cmd.Context(), client, out, &o)
			}
			return g.explain(cmd, client, err)
		},
	})
	g.addReading(cmd, staleWarn)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with each change")
	OutputFlag(cmd, &o)
	return cmd
}

func (g *Globals) showStatus(ctx context.Context, c *client.Client, w io.Writer, o *Output) error {
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if !o.Table() {
		return o.Write(w, s)
	}
	instances, err := c.Instances().List(ctx, client.Filter{})
	if err != nil {
		return err
	}
	return writeStatus(w, g.surface(w), s, instances)
}

// streamStatus writes the status as a line of JSON, and again at each change.
func (g *Globals) streamStatus(ctx context.Context, c *client.Client, w, note io.Writer) error {
	link := &link{globals: g, url: c.BaseURL(), note: note}
	return ended(ctx, c.WatchStatus(ctx, link.options(client.Filter{}), func(s *api.Status) error {
		if err := writeJSON(w, s, true); err != nil {
			return err
		}
		return link.heard(s)
	}))
}

// maxProblems is how many problems fit on one screen.
const maxProblems = 20

func writeStatus(w io.Writer, v *surface, s *api.Status, instances []api.Instance) error {
	out := &sections{w: w}
	out.line(v.summary(s))
	out.title("groups")
	section(out, v, groupColumns(), s.Groups, "no groups are declared")
	out.title("instances")
	section(out, v, instanceColumns(), instances, "no instances are known")
	out.title("problems")
	out.problems(v, s.Problems)
	return out.err
}

// problems lists what is wrong, and where it is said what to do about it.
func (s *sections) problems(v *surface, all []api.Problem) {
	shown := all[:min(len(all), maxProblems)]
	section(s, v, problemColumns(), shown, "none")
	if more := len(all) - len(shown); more > 0 {
		s.line(fmt.Sprintf("and %d more", more))
	}
	said := map[string]bool{}
	for i := range shown {
		if reason := shown[i].Reason; !said[reason] {
			said[reason] = true
			s.line("What to do: " + Printable(snapshot.Runbook(reason)))
		}
	}
}

func (v *surface) summary(s *api.Status) string {
	store := "store " + Printable(cmp.Or(s.Store.Kind, "unknown")) + " reachable"
	if !s.Store.Reachable {
		store = v.paint(
			"31",
			strings.TrimSuffix("store "+Printable(s.Store.Kind)+" not reachable: "+Printable(s.Store.Error), ": "),
		)
	}
	line := fmt.Sprintf(
		"cluster %s, seen by %s %s, %s", Printable(s.Cluster), orDash(s.Instance), Printable(s.Version), store,
	)
	if s.Stale {
		word := "stale: nothing was read yet"
		if !s.ObservedAt.IsZero() {
			word = "stale: as it was " + v.ago(s.ObservedAt) + " ago"
		}
		line += ", " + v.paint("33", word)
	}
	if s.Draining {
		line += ", " + v.state("draining")
	}
	return line
}

// sections writes the parts of a screen and keeps the first error.
type sections struct {
	w   io.Writer
	err error
}

func (s *sections) line(text string) {
	if s.err == nil {
		_, s.err = fmt.Fprintln(s.w, text)
	}
}

func (s *sections) title(text string) {
	s.line("")
	s.line(strings.ToUpper(text[:1]) + text[1:])
}

func section[T any](s *sections, v *surface, columns []column[T], items []T, none string) {
	switch {
	case s.err != nil:
	case len(items) == 0:
		s.line(none)
	default:
		s.err = newPrinter(columns, false, true).print(s.w, v, items)
	}
}

// identity is as whom a replica takes this client.
type identity struct {
	Server string     `json:"server"`
	Name   string     `json:"name"` // of the token
	Role   api.Role   `json:"role"`
	Verbs  []api.Verb `json:"verbs"` // changes that the listener takes from it
}

func whoamiCommand(g *Globals) *cobra.Command {
	var o Output
	cmd := finish(&cobra.Command{
		Use:   "whoami",
		Short: "Show which token and role a replica takes this client for, and what it may change",
		Long: `Show the name and the role of the token that this client sends, the replica that was asked, and the ` +
			`changes that its
listener takes. Without admin.tokensFile everybody on the machine is local, with the role admin. The listener
server.listen takes no changes from anyone.

Exit code 1: the replica does not know the token, or does not answer.`,
		Example: `  shardctl whoami
  shardctl whoami --server https://10.0.0.1:8081 --token-file /etc/shardctl/token -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errors.New("whoami takes no arguments")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			replica, err := g.Client(cmd.Context())
			if err != nil {
				return err
			}
			caller, err := replica.WhoAmI(cmd.Context())
			if err != nil {
				return g.explain(cmd, replica, err)
			}
			who := identity{replica.BaseURL(), caller.Name, caller.Role, filled(caller.Verbs)}
			out := cmd.OutOrStdout()
			if !o.Table() {
				return o.Write(out, who)
			}
			d := &description{sections: sections{w: out}, view: g.surface(out)}
			who.show(d)
			return d.err
		},
	})
	g.addFlags(cmd)
	OutputFlag(cmd, &o)
	return cmd
}

func (i *identity) show(d *description) {
	d.field("Server", Printable(i.Server))
	d.field("Name", Printable(cmp.Or(i.Name, "no token was sent")))
	d.field("Role", Printable(string(i.Role)))
	d.field("Changes", Printable(cmp.Or(strings.Join(texts(i.Verbs), ", "), "none")))
}

func healthcheckCommand(g *Globals) *cobra.Command {
	var timeout time.Duration
	cmd := finish(&cobra.Command{
		Use:   "healthcheck",
		Short: "Ask the replica on this machine whether it is alive: exit code 0 or 1",
		Long: `Ask the replica on this machine whether its process answers: exit code 0 or 1. It is meant for ` +
			`the health check of a
container. A replica whose store is unreachable is alive.`,
		Example: "  shardctl healthcheck\n  shardctl healthcheck --server http://127.0.0.1:8080 --timeout 2s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := healthcheck(g, cmd, timeout); err != nil {
				return Exit{CodeNo, fmt.Errorf("not healthy: %w", err)}
			}
			return nil
		},
	})
	g.addFlags(cmd)
	// A container's health check knows 0 and 1 only; 2 is reserved there.
	cmd.Args = cobra.NoArgs
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Exit{CodeNo, err} })
	DurationFlag(cmd.Flags(), &timeout, "timeout", 5*time.Second, "how long the replica may take to answer")
	return cmd
}

func healthcheck(g *Globals, cmd *cobra.Command, timeout time.Duration) error {
	client, err := g.Client(cmd.Context())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	return g.explain(cmd, client, client.Livez(ctx))
}
