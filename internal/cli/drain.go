package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// emptyingCommand is a command about one instance that waits until the instance owns nothing.
func (c *change) emptyingCommand() *cobra.Command {
	cmd := c.instanceCommand(func(cmd *cobra.Command, instance string) error {
		if c.timeout < 0 {
			return usage("--timeout %s: want 0 or more", c.timeout)
		}
		if err := c.ofInstance(cmd, instance); err != nil || !c.wait || c.dryRun {
			return err
		}
		return c.awaitEmpty(cmd, instance)
	})
	cmd.Flags().BoolVar(&c.wait, "wait", true, "wait until it owns nothing")
	DurationFlag(cmd.Flags(), &c.timeout, "timeout", 0, "how long to wait at most; 0: no limit")
	return cmd
}

// awaitEmpty waits until the instance owns nothing. Replicas that do not answer for a while are waited for as well.
func (c *change) awaitEmpty(cmd *cobra.Command, name string) error {
	ctx, cancel := cmd.Context(), func() {}
	if c.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
	}
	defer cancel()
	progress := progress{w: cmd.ErrOrStderr()}
	defer progress.end()
	pace := waitPace
	if c.globals.isOffline() {
		pace = storePace
	}
	for first := 0; ; {
		c.globals.stale.heard.Store(false)
		left, err := c.lookAtInstance(cmd, name)
		if stuck, ok := errors.AsType[stuckError](err); ok {
			return stuck.error
		}
		stale := c.globals.stale.heard.Load()
		if err == nil && left.owned == 0 && !stale {
			progress.end()
			_, err := fmt.Fprintf(Shown(cmd.OutOrStdout()), "instance %s owns nothing\n", name)
			return err
		}
		first = max(first, left.owned)
		missing := fmt.Sprintf("%s still owns %d of %d tasks", name, left.owned, first)
		switch {
		case err != nil:
			missing = err.Error()
		case stale:
			missing = awayText
		case left.silent:
			return fmt.Errorf("no replica is up to take over the %d tasks of %s: those that start obey, "+
				"it stays drained until `shardctl undrain %s`", left.owned, name, name)
		}
		progress.show(missing)
		if clock.Sleep(ctx, pace) != nil {
			progress.end()
			return fmt.Errorf("after %s: %s; it stays drained until `shardctl undrain %s`", c.timeout, missing, name)
		}
	}
}

// stuckError is one that waiting does not end.
type stuckError struct{ error }

// leftOver is what an instance that is drained still owns.
type leftOver struct {
	owned  int
	silent bool // and no instance of the cluster sends heartbeats
}

// lookAtInstance looks once. An instance that is not known any more owns nothing. Of a store everything is read again
// each time.
func (c *change) lookAtInstance(cmd *cobra.Command, name string) (leftOver, error) {
	replica, err := c.globals.Client(cmd.Context())
	if _, wrong := errors.AsType[Exit](err); wrong {
		return leftOver{}, stuckError{err}
	}
	if err != nil { // a store that is unreachable now may be back in time
		return leftOver{}, err
	}
	i, err := replica.Instances().Get(cmd.Context(), name)
	var bad *api.Error
	switch {
	case errors.Is(err, client.ErrNotFound):
		return leftOver{}, nil
	case errors.As(err, &bad) && bad.Status < 500:
		return leftOver{}, stuckError{c.globals.explain(cmd, replica, err)}
	case err != nil:
		return leftOver{}, c.globals.explain(cmd, replica, err)
	}
	left := leftOver{owned: total(i.Owned)}
	if c.globals.isOffline() && left.owned > 0 {
		left.silent, err = allSilent(cmd.Context(), replica)
	}
	return left, err
}

// allSilent says whether no instance sends heartbeats. A replica that answers does; a store may be all that is left.
func allSilent(ctx context.Context, c *client.Client) (bool, error) {
	s, err := c.Status(ctx)
	if err != nil {
		return false, err
	}
	silent := map[string]bool{}
	for _, p := range s.Problems {
		if p.Reason == api.ProblemInstanceSilent {
			silent[p.Instance] = true
		}
	}
	instances, err := c.Instances().List(ctx, client.Filter{})
	for _, i := range instances {
		if !silent[i.Name] {
			return false, err
		}
	}
	return true, err
}
