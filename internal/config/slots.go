package config

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// slots adds a task of the template for each slot of a group, behind those that have names, and returns the template;
// nil where it is wrong.
func (l *listReader) slots(p *parts, g *settings.Group, s *settings.Settings) *template {
	n, count := p.slots, l.Count(p.slots)
	switch {
	case p.discover != nil:
		l.Add(n, "is set together with discover: a group has one of them, or neither")
		return nil
	case p.template == nil && p.node != nil:
		l.AddAt(n.Place, decode.Under(p.node.Field(), "template"), "is required with slots: it is what runs for each of them")
		return nil
	case p.template == nil || p.template.Shape != decode.Mapping:
		return nil // the schema's check has said so
	case !n.Bad && count > settings.MaxNames-len(g.Tasks):
		l.Refuse(n, fmt.Sprintf("at most %d beside the group's %d tasks", settings.MaxNames-len(g.Tasks), len(g.Tasks)))
		count = 0
	}
	made := names{node: n, all: tasks.SlotNames(count), numbered: true}
	if p.name != "" {
		l.once(p.name, made)
	}
	node := l.withDefaults(p.template, p.defaults)
	g.Slots = count
	g.Tasks = append(g.Tasks, l.tasks(node, made, p.name, s)...)
	return &template{opts: l.opts, node: node, group: p.name, settings: s}
}

// namedTasks are the group's tasks that are neither slots nor discovered.
func namedTasks(g *settings.Group) []tasks.Task { return g.Tasks[:len(g.Tasks)-g.Slots] }

// slotFields are what is printed of a group's slots: their number and the template, not a task for each.
func slotFields(g *settings.Group, from *groupSource, use kind.Use) decode.Fields {
	if from.slots == nil {
		return nil
	}
	template := from.slots.fields(g.Tasks[len(namedTasks(g))], use)
	return from.written.over("", decode.Pairs("slots", g.Slots, "template", template))
}
