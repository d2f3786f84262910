package config

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// store reads where locks are kept. Its errors never quote the URI: it may hold a password, also where it is wrong.
func (l settingsReader) store(root *decode.Node) Store {
	n, database := root.At("store", "uri"), root.At("store", "database")
	uri, ok := l.Value(n)
	if !ok {
		at := root
		if section := root.Get("store"); section != nil {
			at = section
		}
		if n == nil && !at.Bad && !l.partial {
			l.AddAt(at.Place, "store.uri", "is required: %s", store.Forms())
		}
		return Store{}
	}
	named := l.Text(database, "")
	c, err := store.Parse(store.Config{URI: uri, Database: named})
	if wrong, ok := errors.AsType[*store.FieldError](err); ok {
		at := n
		if wrong.Field == "database" && database != nil {
			at = database
		}
		l.Add(at, "%s", wrong.Text)
	} else if err != nil {
		l.Add(n, "%v", err)
	}
	return Store{URI: uri, Database: c.Database, named: named != ""}
}
