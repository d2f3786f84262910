package config

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/variables"
)

// names are those that one task's node makes.
type names struct {
	node     *decode.Node
	all      []string
	numbered bool // each has an index: by braces, or as a slot
}

// taskNames expands the braces of a task's name. There is always one name at least, so that the rest is checked.
func taskNames(p *decode.Problems, task *decode.Node, limit int) names {
	n := task.Get("name")
	if n == nil || n.Shape != decode.Scalar || n.Bad {
		return names{node: task}
	}
	if !n.Settled {
		p.Add(n, "%s holds one of the task's own variables, which depend on its name", n.Quoted())
		return names{node: task}
	}
	made, err := braceNames(n.Text, max(limit, 0))
	if err != nil {
		p.Add(n, "%s %v", n.Quoted(), err)
		return names{node: n}
	}
	for _, name := range made {
		if !settings.IsTaskName(name) {
			reportName(p, n, name)
			return names{node: n}
		}
	}
	return names{node: n, all: made, numbered: hasBraces(n.Text)}
}

func reportName(p *decode.Problems, n *decode.Node, name string) {
	switch {
	case strings.Contains(n.Raw, "$(") || name == n.Text:
		p.Refuse(n, settings.TaskNames)
	default:
		p.Add(n, "%s makes the name %q, must be %s", n.Quoted(), variables.Clipped(name), settings.TaskNames)
	}
}

// named is where each key GROUP/NAME is written.
type named map[string]*decode.Node

// once refuses tasks that are named twice, one error for each pair of places. In groups without a name none is.
func (where named) once(p *decode.Problems, group string, made names) {
	if group == "" {
		return
	}
	count := map[*decode.Node]int{}
	example := map[*decode.Node]string{}
	var order []*decode.Node
	for _, name := range made.all {
		key := group + "/" + name
		first, twice := where[key]
		if !twice {
			where[key] = made.node
			continue
		}
		if count[first]++; count[first] == 1 {
			order, example[first] = append(order, first), name
		}
	}
	for _, first := range order {
		also := "at " + first.String() + " as well"
		if first == made.node {
			also = "twice by these braces"
		}
		if n := count[first] - 1; n > 0 {
			also += fmt.Sprintf(" (and %d more)", n)
		}
		p.Add(made.node, "task %q is named %s: a task stands once in a group", example[first], also)
	}
}
