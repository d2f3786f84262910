package config

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/callback"
	"github.com/shardctl/shardctl/pkg/tasks/exec"
	"github.com/shardctl/shardctl/pkg/tasks/httptask"
)

// Print writes the effective configuration as YAML: every default, braces expanded, fields of exec and http as they are
// written, and secrets masked.
func (s *Settings) Print(w io.Writer) error {
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(s.shown()); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return nil
}

// fields is a mapping that keeps its order.
type fields []field

type field struct {
	name  string
	value any
}

// MarshalYAML gives a mapping without what is nil.
func (f fields) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, one := range f {
		if one.value == nil {
			continue
		}
		var name, value yaml.Node
		name.SetString(one.name)
		if err := value.Encode(one.value); err != nil {
			return nil, err
		}
		n.Content = append(n.Content, &name, &value)
	}
	return n, nil
}

func (s *Settings) shown() fields {
	groups := make([]fields, len(s.Groups))
	for i, g := range s.Groups {
		groups[i] = g.shown(s.Lease.Duration)
	}
	return fields{
		{"version", 1},
		{"cluster", s.Cluster},
		{"instance", s.Instance},
		{"zone", s.Zone},
		{"labels", some(s.Labels)},
		{"revision", s.Revision},
		{"maxTasks", s.MaxTasks},
		{"rollout", s.Rollout},
		{"pod", fields{{"uid", s.Pod.UID}, {"container", s.Pod.Container}, {"dir", s.Pod.Dir}}},
		{"store", fields{{"uri", s.Store.Masked()}, {"database", set(s.Store.Database)}}},
		{"lease", fields{{"duration", short(s.Lease.Duration)}, {"renewDeadline", short(s.Lease.RenewDeadline)}}},
		{"rebalance", fields{
			{"settle", short(s.Rebalance.Settle)},
			{"maxMoves", s.Rebalance.MaxMoves},
			{"onRestart", string(s.Rebalance.OnRestart)},
			{"restartGrace", short(s.Rebalance.RestartGrace)},
		}},
		{"shutdown", fields{{"timeout", short(s.Shutdown.Timeout)}}},
		{"server", fields{{"listen", s.Server.Listen}, {"advertise", s.Server.Advertise}, {"tls", append(s.Server.TLS.shown(), field{"caFile", s.Server.TLS.CAFile})}}},
		{"admin", fields{{"listen", s.Admin.Listen}, {"tokensFile", s.Admin.TokensFile}, {"tls", s.Admin.TLS.shown()}}},
		{"metrics", fields{{"perTask", s.Metrics.PerTask}}},
		{"log", fields{{"level", s.Log.Level}, {"format", s.Log.Format}}},
		{"groups", groups},
	}
}

func (t TLS) shown() fields { return fields{{"certFile", t.CertFile}, {"keyFile", t.KeyFile}} }

func (g Group) shown(lease time.Duration) fields {
	all := make([]fields, len(g.Tasks))
	for i, t := range g.Tasks {
		all[i] = shownTask(t, lease)
	}
	shown := fields{{"name", g.Name}}
	if g.Cap != nil {
		shown = append(shown, field{"cap", *g.Cap})
	}
	if len(g.Selector) > 0 {
		shown = append(shown, field{"instances", fields{{"selector", g.Selector}}})
	}
	return append(shown, field{"tasks", all})
}

// shownTask shows the fields that go with the task, so that what is printed is a configuration as well.
func shownTask(t tasks.Task, lease time.Duration) fields {
	shown := fields{
		{"name", t.Name},
		{"labels", some(t.Labels)},
		{"weight", t.Weight},
	}
	switch r := t.Runner.(type) {
	case callback.Runner:
		shown = append(shown, field{"callback", string(r)})
	case exec.Runner:
		shown = append(shown, field{"exec", shownExec(r)})
	case httptask.Runner:
		shown = append(shown, field{"http", shownHTTP(r, cmp.Or(r.Timeout, min(httptask.DefaultTimeout, lease/4)))})
	}
	shown = append(shown, field{"stop", fields{{"signal", t.Stop.Signal}, {"timeout", short(t.Stop.Timeout)}}})
	if !t.Ticks() {
		return append(shown,
			field{"restart", string(t.Restart)},
			field{"backoff", append(shownBackoff(t.Backoff), field{"resetAfter", short(t.Backoff.ResetAfter)})},
			field{"maxRestarts", t.MaxRestarts},
		)
	}
	if t.Schedule != "" {
		shown = append(shown, field{"schedule", t.Schedule}, field{"timeZone", t.TimeZone})
	} else {
		shown = append(shown, field{"every", short(t.Every)})
	}
	return append(shown,
		field{"overlap", string(t.Overlap)},
		field{"catchUp", string(t.CatchUp)},
		field{"catchUpWindow", short(t.CatchUpWindow)},
		field{"timeout", short(t.Timeout)},
		field{"retry", fields{{"attempts", t.Retry.Attempts}, {"backoff", shownBackoff(t.Retry.Backoff)}}},
	)
}

func shownExec(e exec.Runner) fields {
	shown := fields{{"command", maskArgs(e.Command)}, {"env", some(maskNamedAll(e.Env))}, {"dir", set(e.Dir)}}
	if e.Ready.Notify {
		return append(shown, field{"ready", fields{{"notify", true}}})
	}
	return append(shown, field{"ready", fields{{"delay", short(e.Ready.Delay)}}})
}

func shownHTTP(h httptask.Runner, timeout time.Duration) fields {
	shown := fields{
		{"url", maskText(h.URL)},
		{"method", h.Method},
		{"headers", some(maskNamedAll(h.Headers))},
		{"body", set(maskText(h.Body))},
		{"timeout", short(timeout)},
		{"tokenFile", set(h.TokenFile)},
	}
	if h.CAFile != "" {
		shown = append(shown, field{"tls", fields{{"caFile", h.CAFile}}})
	}
	return shown
}

func shownBackoff(b tasks.Backoff) fields {
	return slices.Clip(fields{{"initial", short(b.Initial)}, {"max", short(b.Max)}})
}

// set is nil for an empty text, which is then left out.
func set(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func some(m map[string]string) any {
	if len(m) == 0 {
		return nil
	}
	return m
}

// short prints a duration without the zero units that time.Duration adds: 5m, not 5m0s.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0 && d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return d.String()
	}
}
