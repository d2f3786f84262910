package program

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/balancer"
)

type planOptions struct {
	replicas, lose int
	labels         []string
	output         cli.Output
}

// maxReplicas bounds what plan computes: who owns what of each group is kept for each replica, before and after.
const maxReplicas = 10000

func planCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan PATH... --replicas N",
		Short: "Show who would own what, and what happens when replicas are lost",
		Long: "Show who would own what with so many replicas, how much capacity is free, and what moves when some " +
			"of them are lost.\n" +
			"Needs neither a store nor replicas. Replicas have the labels of the configuration; --labels gives " +
			"others to some\n" +
			"of them. Exit code 1 when tasks would be left over.",
		Example: "  shardctl plan tasks.yaml --replicas 10 --lose 5\n  shardctl plan tasks.yaml --replicas 10 " +
			"--labels pool=gpu:4",
		Args: cli.Arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if err := o.check(); err != nil {
				return err
			}
			s, err := load(paths)
			if err != nil {
				return err
			}
			return o.plan(cli.Shown(cmd.OutOrStdout()), s.Settings)
		},
	}
	cmd.Flags().IntVar(&o.replicas, "replicas", 0, "how many replicas, 1 to 10000; required")
	cmd.Flags().StringArrayVar(
		&o.labels, "labels", nil, "K=V,...:N: N of the replicas have these labels; may be given several times",
	)
	cmd.Flags().IntVar(&o.lose, "lose", 0, "how many of them are lost")
	cli.OutputFlag(cmd, &o.output)
	return cmd
}

func (o *planOptions) check() error {
	switch {
	case o.replicas < 1 || o.replicas > maxReplicas:
		return usage("--replicas %d: required, 1 to %d", o.replicas, maxReplicas)
	case o.lose < 0 || o.lose > o.replicas:
		return usage("--lose %d: want 0 to %d, the number of replicas", o.lose, o.replicas)
	}
	return nil
}

func (o *planOptions) plan(w io.Writer, s *settings.Settings) error {
	members := reconcile.Replicas(o.replicas, planMember(s))
	if err := o.relabel(members); err != nil {
		return err
	}
	f := reconcile.Simulate(planGroups(s), members, o.lose)
	if !o.output.Table() {
		if err := o.output.Write(w, f); err != nil {
			return err
		}
	} else if _, err := io.WriteString(w, o.table(f, s)); err != nil {
		return err
	}
	if f.LeftOver > 0 {
		return cli.Exit{Code: cli.CodeNo, Err: fmt.Errorf("%s would be left over", cli.Count(f.LeftOver, "task"))}
	}
	return nil
}

func planGroups(s *settings.Settings) []balancer.Group {
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
func planMember(s *settings.Settings) balancer.Member {
	m := balancer.Member{MaxTasks: s.MaxTasks, Labels: s.Labels, Caps: map[string]int{}}
	for _, g := range s.Groups {
		if g.Cap != nil {
			m.Caps[g.Name] = *g.Cap
		}
	}
	return m
}

// relabel gives the replicas the labels of --labels, the first ones first.
func (o *planOptions) relabel(members []balancer.Member) error {
	for _, text := range o.labels {
		colon := strings.LastIndex(text, ":")
		n, err := strconv.Atoi(text[colon+1:])
		if err != nil || n < 1 {
			return usage("--labels %q: want K=V,...:N, for N of the replicas", text)
		}
		if n > len(members) {
			left := cli.Count(len(members), "replica")
			return usage("--labels %q: only %s left of --replicas %d", text, left, o.replicas)
		}
		labels := map[string]string{}
		for pair := range strings.SplitSeq(text[:colon], ",") {
			name, value, ok := strings.Cut(pair, "=")
			if !ok || name == "" {
				return usage("--labels %q: %q is not K=V", text, pair)
			}
			labels[name] = value
		}
		for i := range n {
			members[i].Labels = labels
		}
		members = members[n:]
	}
	return nil
}

// table shows it at one glance: a verdict for each group first, then who owns how many.
func (o *planOptions) table(f reconcile.Forecast, s *settings.Settings) string {
	if len(f.Groups) == 0 {
		return "no tasks: the configuration has no groups\n"
	}
	var b strings.Builder
	if f.MaxTasks > 0 {
		b.WriteString(o.maxTasks(f))
	}
	for i := range f.Groups {
		g := &f.Groups[i]
		fmt.Fprintf(
			&b, "%s: %s, %s, %s\n", g.Name, cli.Count(g.Tasks, "task"), o.owners(g.Before, s.Groups[i].Selector),
			capText(g.Cap),
		)
		fmt.Fprintf(&b, "  with %-3d %s\n", o.replicas, verdict(g.Before, g.Tasks, f.MaxTasks))
		if o.lose > 0 {
			fmt.Fprintf(&b, "  less %-3d %s; %s\n", o.lose, verdict(g.After, g.Tasks, f.MaxTasks), moved(g.Moves))
		}
		shares(&b, g.Before, g.After, o.lose > 0)
		if d := s.Groups[i].Discover; d != nil && d.Lister != nil {
			fmt.Fprintf(&b, "  not counted: at most %s that %s makes of what exists\n", cli.Count(d.Limit, "task"),
				d.Lister.Kind())
		}
		if i < len(f.Groups)-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// maxTasks is what the limit over all groups allows.
func (o *planOptions) maxTasks(f reconcile.Forecast) string {
	tasks := 0
	for _, g := range f.Groups {
		tasks += g.Tasks
	}
	line := func(replicas int) string {
		verdict := "ok"
		if replicas*f.MaxTasks < tasks {
			verdict = "TOO FEW"
		}
		return fmt.Sprintf("%s: %d × %d = capacity %d for %s of all groups",
			verdict, replicas, f.MaxTasks, replicas*f.MaxTasks, cli.Count(tasks, "task"))
	}
	text := fmt.Sprintf("maxTasks: %d on each replica\n  with %-3d %s\n", f.MaxTasks, o.replicas, line(o.replicas))
	if o.lose > 0 {
		text += fmt.Sprintf("  less %-3d %s\n", o.lose, line(o.replicas-o.lose))
	}
	return text + "\n"
}

// owners says how many replicas may own tasks of a group.
func (o *planOptions) owners(s reconcile.Share, selector map[string]string) string {
	all := cli.Count(o.replicas, "replica")
	if len(selector) == 0 {
		return all
	}
	return fmt.Sprintf("%d of %s with %s", len(s.Instances), all, cli.Labels(selector))
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
func verdict(s reconcile.Share, tasks, maxTasks int) string {
	replicas := len(s.Instances)
	if replicas == 0 {
		if tasks == 0 {
			return "ok: no tasks"
		}
		return fmt.Sprintf("LEFT OVER: %s, no replica may own them", cli.Count(s.LeftOver, "task"))
	}
	most, fewest := 0, tasks
	for _, in := range s.Instances {
		most, fewest = max(most, in.Tasks), min(fewest, in.Tasks)
	}
	each := fmt.Sprintf("%d each", most)
	if most != fewest {
		each = fmt.Sprintf("%d to %d each", fewest, most)
	}
	if s.Capacity == nil {
		if s.LeftOver > 0 {
			return fmt.Sprintf("LEFT OVER: %s (%s)", cli.Count(s.LeftOver, "task"), each)
		}
		return "ok: " + each + ", no limit"
	}
	left := cli.Count(s.LeftOver, "task")
	sum := fmt.Sprintf("%d × %d = capacity %d", replicas, *s.Capacity/replicas, *s.Capacity)
	switch {
	case s.LeftOver > 0 && tasks-s.LeftOver < *s.Capacity && maxTasks > 0:
		return fmt.Sprintf("LEFT OVER: %s, %s, but maxTasks allows no more (%s)", left, sum, each)
	case s.LeftOver > 0:
		return fmt.Sprintf("LEFT OVER: %s, %s for %d tasks (%s)", left, sum, tasks, each)
	case *s.Free == 0:
		return fmt.Sprintf("FULL: %s, %s, no headroom", each, sum)
	case s.Headroom != nil && *s.Headroom < 0:
		return fmt.Sprintf(
			"fits, no headroom: %s, %s, %d free; losing one more leaves %s over", each, sum, *s.Free,
			cli.Count(-*s.Headroom, "task"),
		)
	}
	return fmt.Sprintf("ok: %s, %s, %d free; %d still free after losing one more", each, sum, *s.Free, *s.Headroom)
}

// shares lists who owns how many, before and after.
func shares(b *strings.Builder, before, after reconcile.Share, lost bool) {
	left := map[string]int{}
	for _, in := range after.Instances {
		left[in.Instance] = in.Tasks
	}
	width := len("INSTANCE")
	for _, in := range before.Instances {
		width = max(width, len(in.Instance))
	}
	if len(before.Instances) == 0 {
		return
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
