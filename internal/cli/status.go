package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/status"
)

func statusCommand(g *Globals) *cobra.Command {
	var watch bool
	cmd := finish(&cobra.Command{
		Use:   "status",
		Short: "Show groups, instances, and what is wrong and why, on one screen",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && g.isOffline() {
				return usage("-w needs a replica to watch; leave out --config")
			}
			client, err := g.Client(cmd.Context())
			if err != nil {
				return err
			}
			show := g.showStatus
			if watch {
				show = g.followStatus
			}
			return g.explain(cmd, client, show(cmd.Context(), client, cmd.OutOrStdout()))
		},
	})
	g.AddFlags(cmd)
	g.addConfig(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with each change")
	return cmd
}

func (g *Globals) showStatus(ctx context.Context, c *status.Client, w io.Writer) error {
	return g.frame(ctx, c, w, w)
}

// statusPace bounds how often a watched screen is drawn again; changes come in bursts.
const statusPace = 500 * time.Millisecond

// followStatus draws the screen again at each change: over the old one on a terminal, below it elsewhere.
func (g *Globals) followStatus(ctx context.Context, c *status.Client, w io.Writer) error {
	begun := false
	for {
		err := c.WatchStatus(ctx, func(*status.Status) error {
			var screen bytes.Buffer
			if terminal(w) {
				screen.WriteString("\x1b[H\x1b[2J")
			}
			if err := g.frame(ctx, c, w, &screen); err != nil {
				return err
			}
			if begun && !terminal(w) {
				screen.WriteByte('\n')
			}
			begun = true
			if _, err := w.Write(screen.Bytes()); err != nil {
				return writeError{err}
			}
			return pause(ctx, statusPace)
		})
		if again, err := watchAgain(ctx, err, begun); !again {
			return err
		}
		if terminal(w) {
			if _, err := fmt.Fprintf(w, "\nNot connected to %s; trying again.\n", c.BaseURL); err != nil {
				return err
			}
		}
		_ = pause(ctx, rewatch) // when ctx ends the next watch says so
	}
}

// frame writes one screen, with colours where w takes them.
func (g *Globals) frame(ctx context.Context, c *status.Client, w, screen io.Writer) error {
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	instances, err := c.Instances(ctx, status.Filter{})
	if err != nil {
		return err
	}
	return writeStatus(screen, &view{now: g.now(), colour: g.colour(w)}, s, instances)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// maxProblems is how many problems fit on one screen.
const maxProblems = 20

func writeStatus(w io.Writer, v *view, s *status.Status, instances []status.Instance) error {
	out := &sections{w: w}
	out.line(v.summary(s))
	out.title("groups")
	section(out, v, groupColumns(), s.Groups, "no groups are declared")
	out.title("instances")
	section(out, v, instanceColumns(), instances, "no instances are known")
	shown := s.Problems[:min(len(s.Problems), maxProblems)]
	out.title("problems")
	section(out, v, problemColumns(), shown, "none")
	if more := len(s.Problems) - len(shown); more > 0 {
		out.line(fmt.Sprintf("and %d more", more))
	}
	return out.err
}

func (v *view) summary(s *status.Status) string {
	store := "store " + plainText(first(s.Store.Kind, "unknown")) + " reachable"
	if !s.Store.Reachable {
		store = v.paint(
			"31",
			strings.TrimSuffix("store "+plainText(s.Store.Kind)+" not reachable: "+plainText(s.Store.Error), ": "),
		)
	}
	line := fmt.Sprintf(
		"cluster %s, seen by %s %s, %s", plainText(s.Cluster), orDash(s.Instance), plainText(s.Version), store,
	)
	if s.Stale {
		line += ", " + v.paint("33", "stale: as it was "+v.age(s.ObservedAt)+" ago")
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

func section[T any](s *sections, v *view, columns []column[T], items []T, none string) {
	switch {
	case s.err != nil:
	case len(items) == 0:
		s.line(none)
	default:
		s.err = newPrinter(columns, false, true).print(s.w, v, items)
	}
}
