package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/pkg/balancer"
)

type planOptions struct {
	replicas, lose int
	output         string
}

func planCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan PATH... --replicas N",
		Short: "Tell who would own what, and what happens when replicas are lost",
		Long: "Tell who would own what with so many replicas, how much room is left, and what moves when some of them are lost. Needs\n" +
			"neither a store nor replicas. Exit code 1 when tasks would be left over.",
		Args: arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if err := o.check(); err != nil {
				return err
			}
			s, err := load(paths)
			if err != nil {
				return err
			}
			return o.plan(cmd.OutOrStdout(), s)
		},
	}
	cmd.Flags().IntVar(&o.replicas, "replicas", 0, "how many replicas; required")
	cmd.Flags().IntVar(&o.lose, "lose", 0, "how many of them are lost")
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "table or json")
	return cmd
}

func (o planOptions) check() error {
	switch {
	case o.replicas < 1:
		return usage("--replicas %d: required, at least 1", o.replicas)
	case o.lose < 0 || o.lose > o.replicas:
		return usage("--lose %d: want 0 to %d, the number of replicas", o.lose, o.replicas)
	case o.output != "table" && o.output != "json":
		return usage("--output %q: want table or json", o.output)
	}
	return nil
}

func (o planOptions) plan(w io.Writer, s *config.Settings) error {
	f := balancer.Simulate(planGroups(s), o.replicas, planMember(s), o.lose)
	if o.output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		if err := enc.Encode(f); err != nil {
			return err
		}
	} else if _, err := io.WriteString(w, o.table(f)); err != nil {
		return err
	}
	if f.LeftOver > 0 {
		return cli.Exit{Code: cli.CodeNo, Err: fmt.Errorf("%s would be left over", count(f.LeftOver, "task"))}
	}
	return nil
}

func planGroups(s *config.Settings) []balancer.Group {
	groups := make([]balancer.Group, len(s.Groups))
	for i, g := range s.Groups {
		groups[i] = balancer.Group{Name: g.Name, Selector: g.Selector, Keys: make([]balancer.Key, len(g.Tasks))}
		for j, t := range g.Tasks {
			groups[i].Keys[j] = balancer.Key{Key: t.Key(), Weight: t.Weight}
		}
	}
	return groups
}

// planMember is what each replica is like: as this configuration makes it.
func planMember(s *config.Settings) balancer.Member {
	m := balancer.Member{MaxTasks: s.MaxTasks, Labels: s.Labels, Caps: map[string]int{}}
	for _, g := range s.Groups {
		if g.Cap != nil {
			m.Caps[g.Name] = *g.Cap
		}
	}
	return m
}

// table says it at one glance: a verdict for each group first, then who owns how many.
func (o planOptions) table(f balancer.Forecast) string {
	if len(f.Groups) == 0 {
		return "no tasks: the configuration has no groups\n"
	}
	var b strings.Builder
	for i := range f.Groups {
		g := &f.Groups[i]
		fmt.Fprintf(&b, "%s: %s, %s, %s\n", g.Name, count(g.Tasks, "task"), count(o.replicas, "replica"), capText(g.Cap))
		fmt.Fprintf(&b, "  with %-3d %s\n", o.replicas, verdict(g.Before, o.replicas, g.Cap, g.Tasks))
		if o.lose > 0 {
			fmt.Fprintf(&b, "  less %-3d %s; %s\n", o.lose, verdict(g.After, o.replicas-o.lose, g.Cap, g.Tasks), moved(g.Moves))
		}
		shares(&b, g.Before, g.After, o.lose > 0)
		if i < len(f.Groups)-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func moved(n int) string {
	if n == 1 {
		return "1 task moves"
	}
	return fmt.Sprintf("%d tasks move", n)
}

func capText(limit *int) string {
	if limit == nil {
		return "no cap"
	}
	return fmt.Sprintf("cap %d", *limit)
}

// verdict is one line on a share: does it fit, and what if one more is lost.
func verdict(s balancer.Share, replicas int, limit *int, tasks int) string {
	most, fewest := 0, tasks
	for _, in := range s.Instances {
		most, fewest = max(most, in.Tasks), min(fewest, in.Tasks)
	}
	each := fmt.Sprintf("%d each", most)
	switch {
	case len(s.Instances) == 0:
		each = "nobody is left"
	case most != fewest:
		each = fmt.Sprintf("%d to %d each", fewest, most)
	}
	if s.Capacity == nil || limit == nil {
		if s.LeftOver > 0 {
			return fmt.Sprintf("LEFT OVER: %s (%s)", count(s.LeftOver, "task"), each)
		}
		return "ok: " + each + ", no limit"
	}
	sum := fmt.Sprintf("%d × %d = %s", replicas, *limit, count(*s.Capacity, "place"))
	switch {
	case s.LeftOver > 0 && tasks-s.LeftOver < *s.Capacity:
		return fmt.Sprintf("LEFT OVER: %s, %s, but maxTasks allows no more (%s)", count(s.LeftOver, "task"), sum, each)
	case s.LeftOver > 0:
		return fmt.Sprintf("LEFT OVER: %s, %s for %d tasks (%s)", count(s.LeftOver, "task"), sum, tasks, each)
	case *s.Free == 0:
		return fmt.Sprintf("FULL to the brim: %s, %s, no head-room", each, sum)
	case s.Headroom != nil && *s.Headroom < 0:
		return fmt.Sprintf("fits, no head-room: %s, %s, %d free; losing one more leaves %s over", each, sum, *s.Free, count(-*s.Headroom, "task"))
	}
	return fmt.Sprintf("ok: %s, %s, %d free; %d still free after losing one more", each, sum, *s.Free, *s.Headroom)
}

// shares lists who owns how many, before and after.
func shares(b *strings.Builder, before, after balancer.Share, lost bool) {
	left := map[string]int{}
	for _, in := range after.Instances {
		left[in.Instance] = in.Tasks
	}
	width := len("INSTANCE")
	for _, in := range before.Instances {
		width = max(width, len(in.Instance))
	}
	fmt.Fprintf(b, "\n  %-*s  TASKS", width, "INSTANCE")
	if lost {
		b.WriteString("  AFTER")
	}
	b.WriteByte('\n')
	for _, in := range before.Instances {
		fmt.Fprintf(b, "  %-*s  %5d", width, in.Instance, in.Tasks)
		if n, ok := left[in.Instance]; lost && ok {
			fmt.Fprintf(b, "  %5d", n)
		} else if lost {
			b.WriteString("   lost")
		}
		b.WriteByte('\n')
	}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
