package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	group  string
	follow bool
	read   client.LogOptions
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
replica's log. While no replica runs the task, what it wrote last is printed if still kept; standard error says so.

With -f it goes on until Ctrl-C, also when the task moves to another replica: that, and a time without an owner, are
reported on standard error. Where admin.tokensFile is set, output needs a token.`,
		Example: `  shardctl logs topics/topic-007
  shardctl logs topic-007 -g topics --tail 20
  shardctl logs topics/topic-007 -f
  shardctl logs topics/topic-007 --previous --timestamps`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || snapshot.IsPattern(args[0]) {
				return errors.New("name one task as GROUP/NAME; `shardctl get tasks` lists those there are")
			}
			return nil
		},
		ValidArgsFunction: g.completeTask(&o.group),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.logs(g, cmd, args[0])
		},
	})
	g.addFlags(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&o.group, "group", "g", "", "the group of a task that is named without it")
	fs.BoolVarP(&o.follow, "follow", "f", false, "go on with what it writes")
	fs.BoolVarP(&o.read.Previous, "previous", "p", false, "the run before the newest one, if its replica is the same")
	fs.BoolVar(&o.read.Timestamps, "timestamps", false, "begin each line with its time (RFC 3339)")
	fs.IntVar(&o.read.Tail, "tail", maxTail, "at most so many lines of what is there, 0 to 1000")
	g.completeGroup(cmd)
	return cmd
}

func (o *logsOptions) logs(g *Globals, cmd *cobra.Command, name string) error {
	switch {
	case o.read.Tail < 0 || o.read.Tail > maxTail:
		return usage("--tail %d: want 0 to %d, the lines that are kept", o.read.Tail, maxTail)
	case o.read.Previous && o.follow:
		return usage("--previous reads a run that has ended: leave out -f")
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
		client: client, group: group, name: short, out: Shown(cmd.OutOrStdout()),
		notes: cmd.ErrOrStderr(), read: o.read,
		link: &link{globals: g, url: client.BaseURL(), note: cmd.ErrOrStderr()},
	}
	err = r.first(cmd.Context())
	if err == nil && o.follow {
		err = r.follow(cmd.Context())
	}
	return g.explain(cmd, client, err)
}

// logReader reads the output of one task, part by part.
type logReader struct {
	client      *client.Client
	group, name string
	read        client.LogOptions
	out, notes  io.Writer
	link        *link
	last        client.Output // the newest part, for where it goes up to and whose it is
	waiting     string        // for what it waits, as was reported; empty: for nothing
}

func (r *logReader) first(ctx context.Context) error {
	o := r.read
	o.Tail = max(o.Tail, 1)
	part, err := r.client.Tasks().Logs(ctx, r.group, r.name, o)
	if err != nil {
		return err
	}
	r.last = *part
	if part.Ended {
		r.note("%s/%s does not run on %s any more; it wrote there:", r.group, r.name, part.Instance)
	}
	switch {
	case r.read.Previous && part.Text == "":
		return fmt.Errorf("%s keeps no run of %s/%s before the newest one", part.Instance, r.group, r.name)
	case r.read.Tail == 0:
		return nil
	}
	return r.write(part.Text)
}

// note reports what is no output of the task.
func (r *logReader) note(format string, args ...any) {
	// beside the output: nothing depends on it
	_, _ = fmt.Fprintf(r.notes, "-- %s\n", Printable(fmt.Sprintf(format, args...)))
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
	for clock.Sleep(ctx, logPace) == nil {
		part, err := r.after(ctx, "")
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
		if part.FencingToken < r.last.FencingToken && part.FencingToken > 0 {
			continue // of an owner before: the replica that answered has not seen the move yet
		}
		r.waiting = ""
		if err := r.moved(ctx, part); err != nil {
			return err
		}
		r.last = *part
		if err := r.write(part.Text); err != nil {
			return err
		}
	}
	return nil
}

// after reads what was written since the position: on the instance, or empty: on the owner.
func (r *logReader) after(ctx context.Context, instance string) (*client.Output, error) {
	return r.client.Tasks().Logs(ctx, r.group, r.name, client.LogOptions{
		After: r.last.Position, Instance: instance, Timestamps: r.read.Timestamps,
	})
}

// passing says that the next request may do better: the task has no owner just now, or its owner does not answer.
func passing(e *api.Error) bool {
	return e.Status == 404 || e.Status == 429 || e.Status >= 500
}

// wait reports once what is waited for.
func (r *logReader) wait(why string) {
	if why != r.waiting {
		r.note("%s; waiting", why)
	}
	r.waiting = why
}

// moved reports that the part comes from another replica, or from one that has started again. Before that it prints
// what the task wrote last where it was, if that is still kept.
func (r *logReader) moved(ctx context.Context, part *client.Output) error {
	before, now := status.ProcessOf(r.last.Position), status.ProcessOf(part.Position)
	if before == now || before == "" || now == "" {
		return nil
	}
	if rest, err := r.after(ctx, r.last.Instance); err == nil && status.ProcessOf(rest.Position) == before {
		if err := r.write(rest.Text); err != nil {
			return err
		}
	}
	why := ""
	if t, err := r.client.Tasks().Get(ctx, r.group, r.name); err == nil && t.Instance == part.Instance {
		why = " (" + t.Reason + ")"
	}
	if r.last.Instance == part.Instance {
		r.note("%s/%s runs on %s again, in another process%s", r.group, r.name, part.Instance, why)
		return nil
	}
	r.note("%s/%s moved from %s to %s%s", r.group, r.name, r.last.Instance, part.Instance, why)
	return nil
}
