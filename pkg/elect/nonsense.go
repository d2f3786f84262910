package elect

import "github.com/shardctl/shardctl/pkg/elect/store"

// maxTold bounds the memory of what was logged.
const maxTold = 1000

type foundAt struct {
	kind store.Kind
	id   string
	rev  int64
}

// nonsense tells, once for each time it was edited, of a document that cannot be read whole.
func (e *Elector) nonsense(d store.Doc, err error) {
	at := foundAt{d.Kind, d.ID, d.Rev}
	if e.loop.told[at] {
		return
	}
	if e.loop.told == nil || len(e.loop.told) >= maxTold {
		e.loop.told = map[foundAt]bool{}
	}
	e.loop.told[at] = true
	e.log.Info("A document in the store makes no sense: somebody has edited it", "kind", d.Kind, "id", d.ID, "error", err.Error())
}
