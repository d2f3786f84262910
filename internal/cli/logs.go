package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	group  string
	follow bool
	tail   int
}

// maxTail is how many lines of a task's output are kept.
const maxTail = 1000

func logsCommand(g *Globals) *cobra.Command {
	var o logsOptions
	cmd := finish(&cobra.Command{
		Use:   "logs TASK",
		Short: "Print what a task wrote lately",
		Long: `Print what the command of a task wrote lately, on standard output and standard error. The replica ` +
			`that runs it keeps
the last 1,000 lines (256 KiB), restarts in place included; what was written elsewhere before a move is in that
replica's log.

With -f it goes on until Ctrl-C, also when the task moves to another replica: that, and a time without an owner, are
reported on standard error. Where admin.tokensFile is set, output needs a token.`,
		Example: `  shardctl logs topics/topic-007
  shardctl logs topic-007 -g topics --tail 20
  shardctl logs topics/topic-007 -f`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || isPattern(args[0]) {
				return errors.New("name one task as GROUP/NAME; `shardctl get tasks` lists those there are")
			}
			return nil
		},
		ValidArgsFunction: g.completeTask(&o.group),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.logs(g, cmd, args[0])
		},
	})
	g.AddFlags(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&o.group, "group", "g", "", "the group of a task that is named without it")
	fs.BoolVarP(&o.follow, "follow", "f", false, "go on with what it writes")
	fs.IntVar(&o.tail, "tail", maxTail, "at most so many lines of what is there, 0 to 1000")
	g.completeGroup(cmd)
	return cmd
}

func (o *logsOptions) logs(g *Globals, cmd *cobra.Command, name string) error {
	if o.tail < 0 || o.tail > maxTail {
		return usage("--tail %d: want 0 to %d, the lines that are kept", o.tail, maxTail)
	}
	w, err := wantTasks([]string{name}, o.group)
	if err != nil {
		return err
	}
	client, err := g.Client(cmd.Context())
	if err != nil {
		return err
	}
	group, short, _ := strings.Cut(w.args[0], "/")
	r := &logReader{
		client: client, group: group, name: short, out: cmd.OutOrStdout(),
		link: &link{globals: g, url: client.BaseURL(), note: cmd.ErrOrStderr()},
	}
	err = r.first(cmd.Context(), o.tail)
	if err == nil && o.follow {
		err = r.follow(cmd.Context())
	}
	return g.explain(cmd, client, err)
}

// logReader reads the output of one task, part by part.
type logReader struct {
	client      *client.Client
	group, name string
	out         io.Writer
	link        *link
	position    string // up to where it was read
	waiting     string // for what it waits, as was reported; empty: for nothing
}

func (r *logReader) first(ctx context.Context, tail int) error {
	part, err := r.client.Tasks().Logs(ctx, r.group, r.name, client.LogOptions{Tail: max(tail, 1)})
	if err != nil {
		return err
	}
	r.position = part.Position
	if tail == 0 {
		return nil
	}
	return r.write(part.Text)
}

func (r *logReader) write(text string) error {
	_, err := io.WriteString(r.out, text)
	return err
}

// logPace is how often a task that is followed is asked for what is new.
const logPace = 500 * time.Millisecond

// follow prints what the task writes until ctx ends. A task without an owner and a replica that is unreachable are
// waited for.
func (r *logReader) follow(ctx context.Context) error {
	replica := connection{link: r.link}
	for pause(ctx, logPace) == nil {
		part, err := r.client.Tasks().Logs(ctx, r.group, r.name, client.LogOptions{After: r.position})
		var bad *api.Error
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // ending it is how it is meant to end
		case errors.As(err, &bad) && !passing(bad):
			return err
		case errors.As(err, &bad):
			replica.up()
			r.wait(bad.Detail)
			continue
		case err != nil:
			replica.down(err)
			continue
		}
		replica.up()
		r.moved(part.Position)
		r.position = part.Position
		if err := r.write(part.Text); err != nil {
			return err
		}
	}
	return nil
}

// passing says that the next request may do better: the task has no owner just now, or its owner does not answer.
func passing(e *api.Error) bool {
	return e.Status == 404 || e.Status == 429 || e.Status >= 500
}

// wait reports once what is waited for.
func (r *logReader) wait(why string) {
	if why != r.waiting {
		r.link.report("%s", plainText(why))
	}
	r.waiting = why
}

// moved reports that the output comes from another replica now, or from one that has started again.
func (r *logReader) moved(position string) {
	r.waiting = ""
	before, _ := status.PositionOf(r.position)
	after, instance := status.PositionOf(position)
	if before != after && before != "" && after != "" {
		r.link.report("%s/%s runs on %s now", r.group, r.name, plainText(instance))
	}
}
