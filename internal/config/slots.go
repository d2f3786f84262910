package config

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// slots adds a task of the template for each slot of a group, behind those that have names, and returns the template;
// nil where it is wrong.
func (l groupReader) slots(p *parts, g *settings.Group) *template {
	n, template, count := p.joined.Get("slots"), p.joined.Get("template"), g.Slots
	g.Slots = 0
	switch most := settings.MaxNames - len(g.Tasks); {
	case p.joined.Get("discover") != nil:
		l.Add(n, "is set together with discover: a group has one of them, or neither")
		return nil
	case template == nil:
		l.AddAt(n.Place, decode.Under(p.node.Field(), "template"),
			"is required with slots: it is what runs for each of them")
		return nil
	case template.Shape != decode.Mapping:
		return nil // the schema's check has said so
	case !n.Bad && count > most:
		l.Refuse(n, fmt.Sprintf("at most %d beside the group's %d tasks", most, len(g.Tasks)))
		count = 0
	}
	made := names{node: n, all: tasks.SlotNames(count), numbered: true}
	l.names.once(&l.Problems, p.name, made)
	node := withDefaults(l.opts.Kinds, template, p.joined.Get("defaults"))
	g.Slots = count
	g.Tasks = append(g.Tasks, l.tasks(node, made, p.name)...)
	return newTemplate(l.taskReader, p.name, node)
}

// namedTasks are the group's tasks that are neither slots nor discovered.
func namedTasks(g *settings.Group) []tasks.Task { return g.Tasks[:len(g.Tasks)-g.Slots] }
