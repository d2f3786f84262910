package config

import (
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/variables"
)

// minInterval bounds how often a place is asked.
const minInterval = time.Second

// discover reads a group's discover and template, which go together. The template is nil where there is none.
func (l groupReader) discover(p *parts) (*settings.Discover, *template) {
	n, written := p.joined.Get("discover"), p.joined.Get("template")
	switch {
	case n == nil:
		l.Add(written, "goes with discover or slots only: it is what runs for each of them")
		return nil, nil
	case n.Shape != decode.Mapping:
		return nil, nil // the schema's check has said so
	case written == nil:
		l.AddAt(n.Place, decode.Under(p.node.Field(), "template"),
			"is required with discover: it is what runs for each that is found")
	}
	d := &settings.Discover{}
	d.Fields().Read(n, l.Reader)
	if d.Interval < minInterval {
		l.Refuse(n.Get("interval"), "at least "+decode.Short(minInterval))
	}
	d.Lister = l.lister(n)
	if written == nil || written.Shape != decode.Mapping {
		return d, nil
	}
	node := withDefaults(l.opts.Kinds, written, p.joined.Get("defaults"))
	warnOfNames(&l.Problems, node)
	t := newTemplate(l.taskReader, p.name, node)
	t.each, t.files = variesByName(node), discoveredFiles(node)
	// What is wrong with the template is wrong for any name.
	t.build(l.taskReader, node, discover.Found{Name: "x", Partition: "0"})
	d.Template = t
	return d, t
}

// lister reads who is asked: the one field of discover that names a kind.
func (l groupReader) lister(n *decode.Node) discover.Lister {
	var has []discover.Kind
	for _, kind := range l.opts.Listers.All() {
		if n.Get(kind.Name()) != nil {
			has = append(has, kind)
		}
	}
	names := strings.Join(l.opts.Listers.Names(), ", ")
	switch {
	case n.Bad:
		return nil
	case len(has) == 0:
		l.AddAt(n.Place, n.Field(), "has no one to ask, must have exactly one of %s", names)
		return nil
	case len(has) > 1:
		l.AddAt(n.Place, n.Field(), "has %s and %s, must have exactly one of %s", has[0].Name(), has[1].Name(), names)
		return nil
	}
	l.AtStart = func(name string) (string, bool) {
		if variables.IsOwn(name) {
			return "", name == variables.Group
		}
		return l.opts.Env(name)
	}
	l.Scope = l.AtStart
	asked := n.Get(has[0].Name())
	lister := has[0].Parse(asked, l.Reader)
	l.AddFieldErrors(asked, lister.Validate())
	return lister
}

// discoverFields are what is printed. A template shows what depends on what is found as it is written.
func discoverFields(d *settings.Discover, from *groupSource, use kind.Use) decode.Fields {
	if d.Lister == nil || from.template == nil {
		return nil
	}
	asks := from.discover.over("", append(decode.Pairs(d.Lister.Kind(), d.Lister.Print()), d.Fields().Print()...))
	sample, err := from.template.task(discover.Found{Name: "x", Partition: "0"})
	if err != nil {
		return decode.Pairs("discover", asks)
	}
	return decode.Pairs("discover", asks, "template", from.template.fields(sample, use))
}
