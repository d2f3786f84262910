package engine

import (
	"sync"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
)

// maxLogged bounds the memory of what was logged.
const maxLogged = 1000

// Unreadable looks at documents as they come out of a database, where anybody may have edited them. Each that is none
// is logged once. Its methods may be called concurrently.
type Unreadable struct {
	log    logr.Logger
	mu     sync.Mutex
	logged map[string]struct{}
}

// NewUnreadable logs to log.
func NewUnreadable(log logr.Logger) *Unreadable {
	return &Unreadable{log: log, logged: map[string]struct{}{}}
}

// Usable says whether d is a document.
func (u *Unreadable) Usable(d store.Doc) bool {
	err := store.CheckFound(d)
	if err != nil {
		u.Report(d.Kind, d.ID, err)
	}
	return err == nil
}

// Add adds d to a reply, as a document or as one that is none.
func (u *Unreadable) Add(to *store.Reply, d store.Doc) {
	if err := store.CheckFound(d); err != nil {
		to.Unreadable = append(to.Unreadable, u.Report(d.Kind, d.ID, err))
		return
	}
	to.Docs = append(to.Docs, d)
}

// Report logs that a document cannot be read, and why, unless that was logged before. It returns what replies say.
func (u *Unreadable) Report(kind store.Kind, id string, why error) store.Unreadable {
	document := string(kind) + " " + id
	u.mu.Lock()
	_, before := u.logged[document]
	if !before && len(u.logged) < maxLogged {
		u.logged[document] = struct{}{}
	}
	u.mu.Unlock()
	if !before {
		u.log.Error(why, "A document in the store is unreadable", "document", document)
	}
	return store.Unreadable{Kind: kind, ID: id, Err: why}
}
