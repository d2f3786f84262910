//go:build linux

package chaos

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// begin does a fault, or begins one that lasts. It does not wait: what needs the store is done asynchronously.
func (s *trial) begin(f Fault) {
	s.line.Note("%s", f)
	s.done[f.Kind]++
	switch reach[f.Kind] {
	case oneReplica:
		s.hit(s.slots[f.Slot], f)
	case allReplicas:
		s.hitAll(f)
	case theStore:
		s.async(f, s.backend.Begin)
	case documents, everything:
		if f.Kind == ChangeLists {
			s.changeLists(f)
			return
		}
		s.async(f, s.edit)
	}
}

// end is the end of one that lasts.
func (s *trial) end(f Fault) {
	s.line.Note("        end of: %s", f)
	p := s.slots[f.Slot]
	switch f.Kind {
	case Freeze:
		s.melt(p, f)
	case StopWorker, StopGuard:
		if err := p.thaw(); err != nil {
			s.line.Note("        thaw: %v", err)
		}
	case FreezeApplication:
		s.thawApplication(p)
	case KillDraining:
		s.signal(p, f, harness.Worker, syscall.SIGKILL)
	default:
		s.async(f, s.backend.End)
	}
}

func (s *trial) hit(p *slot, f Fault) {
	switch f.Kind {
	case KillWorker:
		s.signal(p, f, harness.Worker, syscall.SIGKILL)
	case KillGuard:
		s.signal(p, f, harness.Guard, syscall.SIGKILL)
	case KillBoth:
		s.killBoth(p, f)
	case Terminate, KillDraining:
		s.signal(p, f, harness.Guard, syscall.SIGTERM)
	case StopWorker:
		s.signal(p, f, harness.Worker, syscall.SIGSTOP)
	case StopGuard:
		s.signal(p, f, harness.Guard, syscall.SIGSTOP)
	case Freeze:
		s.freeze(p, f)
	case KillApplication:
		s.hitApplication(p, syscall.SIGKILL)
	case FreezeApplication:
		s.hitApplication(p, syscall.SIGSTOP)
	case Join:
		p.want = true
	case Leave:
		p.want = false
		s.signal(p, f, harness.Guard, syscall.SIGTERM)
	default: // of another scope
	}
}

func (s *trial) hitAll(f Fault) {
	for _, p := range s.slots {
		if !p.running() {
			continue
		}
		switch f.Kind {
		case MassKill:
			s.killBoth(p, f)
		case MassTerminate:
			s.signal(p, f, harness.Guard, syscall.SIGTERM)
		case MassWorkers:
			s.signal(p, f, harness.Worker, syscall.SIGKILL)
		default: // of another scope
		}
	}
}

// changeLists gives every replica the next task list; those that start later get it too.
func (s *trial) changeLists(f Fault) {
	s.lists = lists{revision: s.lists.revision + 1, extra: f.List}
	for _, p := range s.slots {
		if !p.running() {
			continue
		}
		if err := s.rewrite(p.replica); err != nil {
			s.failures = append(s.failures, err.Error())
		}
	}
}

// rewrite replaces a file at once, so that no half of it is read.
func (s *trial) rewrite(r *harness.Replica) error {
	text, err := s.config(r.Name, r.Client.Server, r.Client.Admin)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.Config+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(r.Config+".new", r.Config)
}

// asyncLimit bounds what is done to the store. That it fails is no surprise while the store is unreachable.
const asyncLimit = 20 * time.Second

// async queues what is done to the store: one after the other, in order, in a goroutine of its own.
func (s *trial) async(f Fault, do func(context.Context, Fault) (string, error)) {
	s.storeWork <- func() {
		ctx, cancel := context.WithTimeout(s.ctx, asyncLimit)
		defer cancel()
		said, err := do(ctx, f)
		if err != nil {
			s.line.Note("        %s: %v", f.Kind, err)
		} else if said != "" {
			s.line.Note("        %s: %s", f.Kind, said)
		}
	}
}

// documentStore edits what is kept, as somebody with a shell would.
type documentStore interface {
	// Sessions are the IDs of live sessions, in order.
	Sessions(ctx context.Context) ([]string, error)
	// Owned are the keys of the commands' locks that have an owner, in order.
	Owned(ctx context.Context) ([]string, error)
	// Delete deletes one document.
	Delete(ctx context.Context, kind, id string) error
	// Raise makes the revision of one larger by one, and Reset its counter 0.
	Raise(ctx context.Context, kind, id string) error
	Reset(ctx context.Context, kind, id string) error
	// DeleteFree deletes all locks without an owner.
	DeleteFree(ctx context.Context) error
}

// deletion is a lock that somebody deleted under its owner.
type deletion struct {
	key         string
	before, end history.Instant
}

// edit does what a fault does to documents.
func (s *trial) edit(ctx context.Context, f Fault) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Lease/2)
	defer cancel()
	docs := s.backend.Documents()
	switch f.Kind {
	case ResetGroup:
		return "", docs.Reset(ctx, "group", harness.Group)
	case DeleteGroup:
		return "", docs.Delete(ctx, "group", harness.Group)
	case DeleteFreeLock:
		return "", docs.DeleteFree(ctx)
	case DeleteLock:
		return s.deleteLock(ctx, f)
	default:
	}
	sessions, err := docs.Sessions(ctx)
	if err != nil || len(sessions) == 0 {
		return "no session", err
	}
	id := sessions[f.Pick%uint64(len(sessions))]
	switch f.Kind {
	case DeleteSession:
		err = docs.Delete(ctx, "session", id)
	case RaiseSession:
		err = docs.Raise(ctx, "session", id)
	case DeleteMember:
		err = docs.Delete(ctx, "member", id)
	default:
		err = fmt.Errorf("%q is no fault of documents", f.Kind)
	}
	return id, err
}

func (s *trial) deleteLock(ctx context.Context, f Fault) (string, error) {
	docs := s.backend.Documents()
	keys, err := docs.Owned(ctx)
	if err != nil || len(keys) == 0 {
		return "no lock", err
	}
	d := deletion{key: keys[f.Pick%uint64(len(keys))], before: history.Now()}
	err = docs.Delete(ctx, "lock", d.key)
	d.end = history.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deletions = append(s.deletions, d)
	return d.key, err
}
