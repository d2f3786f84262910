package config

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// store reads where locks are kept. Its errors never quote the URI: it may hold a password, also where it is wrong.
func (l *loader) store(root *node) Store {
	n := root.at("store", "uri")
	uri, ok := l.value(n)
	if !ok {
		if n == nil {
			at := root
			if section := root.get("store"); section != nil {
				at = section
			}
			if at.bad || l.partial {
				return Store{}
			}
			l.addAt(at, "store.uri", "is required: %s", store.Forms())
		}
		return Store{}
	}
	database := root.at("store", "database")
	c, err := store.Parse(store.Config{URI: uri, Database: l.text(database, "")})
	if wrong, ok := errors.AsType[*store.FieldError](err); ok {
		at := n
		if wrong.Field == "database" {
			at = database
		}
		l.add(at, "%s", wrong.Text)
	} else if err != nil {
		l.add(n, "%v", err)
	}
	return Store{URI: uri, Database: c.Database}
}
