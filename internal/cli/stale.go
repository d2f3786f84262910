package cli

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// What --stale says.
const (
	staleWarn = "warn"
	staleFail = "fail"
)

// staleHelp is in the help of commands that show something.
const staleHelp = `

While the store is away a replica answers with what it saw last. A line on standard error says since when that may be
out of date; JSON and YAML have "stale": true. With --stale=fail the exit code is 3 then, and a watch ends.`

// staleness is what the command that runs has heard of answers that are stale. It may be used from many goroutines.
type staleness struct {
	fail  bool        // --stale=fail
	heard atomic.Bool // of an answer, since it was last set to false
	asked *client.Client
}

func (s *staleness) note(stale bool) {
	if stale {
		s.heard.Store(true)
	}
}

// errStale ends a watch that --stale=fail is given for.
var errStale = errors.New("what is watched is stale")

// addStale adds --stale to a command that reads, and has it obey: whatever it shows, [Globals.judge] ends it.
func (g *Globals) addStale(cmd *cobra.Command, byDefault string) {
	var word string
	cmd.Flags().StringVar(&word, "stale", byDefault, "when the store is away: warn, or fail with exit code 3")
	FixedWords(cmd, "stale", staleWarn, staleFail)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if word != staleWarn && word != staleFail {
			return usage("--stale %q: want warn or fail", word)
		}
		g.stale.fail = word == staleFail
		return g.judge(cmd, run(cmd, args))
	}
}

// judge is the one rule about stale answers. A command that has shown one, or has ended in vain after one, says so in a
// line. With --stale=fail it ends with [CodeStale] then; else its code is what it would have been.
func (g *Globals) judge(cmd *cobra.Command, err error) error {
	watched := errors.Is(err, errStale)
	if !watched && !g.stale.heard.Load() {
		return err
	}
	_, _ = fmt.Fprintln(cmd.ErrOrStderr(), g.whyStale(cmd.Context())) // there is nowhere else to report it
	if _, decided := errors.AsType[Exit](err); decided || !g.stale.fail {
		return err
	}
	if watched {
		err = nil
	}
	return Exit{CodeStale, err}
}

// whyStale asks since when, and why.
func (g *Globals) whyStale(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s, err := g.stale.asked.Status(ctx)
	if err != nil || !s.Stale {
		return "stale: the store did not answer when this was read: it may be out of date"
	}
	return staleText(s, g.now())
}

// staleText is what a stale status says of itself, in a line.
func staleText(s *api.Status, now time.Time) string {
	text := "stale: the store has not been read yet: nothing is known for sure"
	if !s.ObservedAt.IsZero() {
		text = fmt.Sprintf("stale: the store has not answered since %s, %s ago: what is shown may be out of date",
			s.ObservedAt, span(now.Sub(s.ObservedAt.Time)))
	}
	if s.Store.Error != "" {
		text += " (" + plainText(s.Store.Error) + ")"
	}
	return text
}

// beside watches, and reports when what is watched becomes stale and when it is fresh again.
func (l *link) beside(ctx context.Context, c *client.Client, watch func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return watch(ctx) })
	g.Go(func() error { return c.WatchStatus(ctx, l.patient(), l.heard) })
	return g.Wait()
}

// isStale says whether the replica said so last.
func (l *link) isStale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stale
}

// heard takes the status of a replica that is watched. [errStale]: it is stale, and --stale=fail was given.
func (l *link) heard(s *api.Status) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.stale
	l.stale = s.Stale
	switch {
	case s.Stale && l.globals.stale.fail:
		return errStale
	case s.Stale && !was:
		l.report("%s", staleText(s, l.globals.now()))
	case was && !s.Stale:
		l.report("fresh again: the store answers")
	}
	return nil
}
