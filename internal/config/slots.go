package config

import (
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// slots adds a task of the template for each slot of a group, behind those that have names. What it returns stands for
// them in the hash of the list.
func (l *listReader) slots(p *parts, g *Group, s *Settings) string {
	n, count := p.slots, l.Count(p.slots)
	switch {
	case p.discover != nil:
		l.Add(n, "is set together with discover: a group has one of them, or neither")
		return ""
	case p.template == nil && p.node != nil:
		l.AddAt(n.Place, decode.Under(p.node.Field(), "template"), "is required with slots: it is what runs for each of them")
		return ""
	case p.template == nil || p.template.Shape != decode.Mapping:
		return "" // the schema's check has said so
	case !n.Bad && count > MaxNames-len(g.Tasks):
		l.Refuse(n, fmt.Sprintf("at most %d beside the group's %d tasks", MaxNames-len(g.Tasks), len(g.Tasks)))
		count = 0
	}
	made := names{node: n, all: tasks.SlotNames(count), numbered: true}
	if p.name != "" {
		l.once(p.name, made)
	}
	node := l.withDefaults(p.template, p.defaults)
	g.Slots = count
	g.slots = &Template{opts: l.opts, node: node, group: p.name, settings: s}
	g.Tasks = append(g.Tasks, l.tasks(node, made, p.name, s)...)
	g.written.note("slots", n)
	return jsonText(map[string]any{"slots": n.Written(), "template": node.Written()})
}

// named are the tasks that are neither slots nor discovered.
func (g *Group) named() []tasks.Task { return g.Tasks[:len(g.Tasks)-g.Slots] }

// slotFields are what is printed of a group's slots: their number and the template, not a task for each.
func (g *Group) slotFields(use kind.Use) decode.Fields {
	if g.slots == nil {
		return nil
	}
	template := g.slots.fields(g.Tasks[len(g.named())], use)
	return g.written.over("", slices.Concat(decode.Pairs("slots", g.Slots), decode.Pairs("template", template)))
}
