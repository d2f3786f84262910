package engine

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Member is what the instance says of itself, and the document that others read. It is not safe for concurrent use.
type Member struct {
	ids     *record.WriterIDs
	retry   time.Duration
	record  record.Member
	opened  int64         // the store's clock at the process's first session
	dirty   bool          // the document is not what it should be
	flying  bool          // write is under way
	write   *store.Change // an unanswered write, repeated as it is
	retryAt protocol.Instant
}

// begin begins the member of another session.
func (m *Member) begin(ids *record.WriterIDs, lease time.Duration) {
	m.ids = ids
	m.record.Session, m.record.Rev, m.record.LeaseMS = ids.Session, 0, lease.Milliseconds()
	m.dirty, m.flying, m.write, m.retryAt = true, false, nil, protocol.Instant{}
}

// due is the write that brings the document up to date, if one is due: an unanswered one again, as it was.
func (m *Member) due(at protocol.Moment) *store.Change {
	if m.opened == 0 && at.Rev != 0 { // by no other clock than the store's: it says which of two revisions is newer
		m.opened, m.dirty = at.Clock, true
	}
	if m.flying || !m.dirty && m.write == nil || at.Now.HolderElapsed(m.retryAt) < 0 {
		return nil
	}
	if m.write == nil {
		m.record.Opened = m.opened
		next := m.record
		next.Rev++
		m.write = &store.Change{IfRev: m.record.Rev, Doc: next.Doc(m.ids.Next())}
		m.dirty = false
	}
	m.flying = true
	return m.write
}

// Record is what the instance says of itself.
func (m *Member) Record() record.Member { return m.record }

// Readable says whether others can read it.
func (m *Member) Readable() bool { return m.record.Rev > 0 }

// Set changes what the instance says of itself. Session, Rev, Instance, Opened and LeaseMS stay as they are.
func (m *Member) Set(r record.Member) {
	was := m.record
	r = r.Clone()
	r.Session, r.Rev, r.Instance, r.Opened, r.LeaseMS = was.Session, was.Rev, was.Instance, was.Opened, was.LeaseMS
	m.record, m.dirty = r, true
}

// Answered takes the outcome of a write. One that the store cannot take at all is not repeated. It reports whether
// others are to look.
func (m *Member) Answered(change store.Change, out store.Outcome, now protocol.Instant) bool {
	if change.Doc.ID != m.ids.Session {
		return false
	}
	m.flying, m.retryAt = false, now.Add(m.retry)
	switch record.StatusOf(out) {
	case protocol.Applied:
		m.record.Rev = change.Doc.Rev
	case protocol.Refused: // edited manually: on top of what is there now
		m.dirty, m.record.Rev = true, 0
		if out.Doc != nil {
			m.record.Rev = out.Doc.Rev
		}
	case protocol.Unknown:
		return false
	case protocol.Unwritable:
	}
	m.write = nil
	return true
}

// Found takes what others read as this instance's member, asked for when its revision was rev; doc is nil when it is
// absent. It reports whether the document was deleted or edited: then it is written again.
func (m *Member) Found(session string, rev int64, doc *store.Doc) bool {
	if session != m.ids.Session || m.flying || m.dirty || m.write != nil || m.record.Rev != rev {
		return false
	}
	found := int64(0)
	if doc != nil {
		if found = doc.Rev; found == rev && string(doc.Body) == string(m.record.Doc(store.WriterID{}).Body) {
			return false
		}
	}
	m.record.Rev, m.dirty = found, true
	return true
}
