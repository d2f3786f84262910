package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// ErrNotInPlace says that nothing proves that this process follows another one in the same container: wait for the lease,
// as after any death.
var ErrNotInPlace = errors.New("no restart in place")

// Identity says which container of which pod this is.
type Identity struct {
	PodUID    string `json:"podUid"`
	Container string `json:"container"`
}

// Place is the memory of a container across its restarts: a file on a volume of the pod, and a lock beside it that is held
// for as long as the process lives. A container that was killed whole, guard included, cannot mark its sessions; the
// next process in the same place can, at once, since everything of the last one ended with its PID 1.
type Place struct {
	file string
	lock *os.File

	mu     sync.Mutex
	record record
}

// record is the file's content.
type record struct {
	Identity
	Sessions map[string]map[elect.Key]time.Duration `json:"sessions"` // by uuid: the keys ever granted, and T
}

// InPlace takes the place that dir stands for and returns the sessions that a predecessor left, to be marked dead; each of
// its granted keys stays held for a whole lease. It must be called by a worker, before it opens a session. The error
// wraps [ErrNotInPlace] when the guard is not PID 1, the identity is not known, or another process holds the place.
//
// Once a predecessor's session is marked, say so by [Place.Closed].
func InPlace(dir string, id Identity) (*Place, []Session, error) {
	if os.Getppid() != 1 {
		return nil, nil, fmt.Errorf("%w: the guard is not PID 1", ErrNotInPlace)
	}
	return takePlace(dir, id)
}

func takePlace(dir string, id Identity) (*Place, []Session, error) {
	if id.PodUID == "" || id.Container == "" {
		return nil, nil, fmt.Errorf("%w: the pod's UID or the container's name is not known", ErrNotInPlace)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "place.lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // G304: the directory is the operator's choice
	if err != nil {
		return nil, nil, fmt.Errorf("take the place: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("%w: another process holds %s: %w", ErrNotInPlace, lock.Name(), err)
	}
	p := &Place{file: filepath.Join(dir, "place.json"), lock: lock}
	old, err := readRecord(p.file)
	if err != nil {
		p.Release()
		return nil, nil, err
	}
	p.record = record{Identity: id, Sessions: map[string]map[elect.Key]time.Duration{}}
	if old.Identity != id {
		return p, nil, p.save()
	}
	var left []Session
	for uuid, granted := range old.Sessions {
		p.record.Sessions[uuid] = granted
		left = append(left, Session{UUID: uuid, Granted: maps.Clone(granted)})
	}
	return p, left, nil
}

func readRecord(file string) (record, error) {
	var r record
	text, err := os.ReadFile(file) //nolint:gosec // G304: the directory is the operator's choice
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read what was here before: %w", err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, nil //nolint:nilerr // what cannot be read proves nothing, as if it were not there
	}
	return r, nil
}

// Opening notes a session. It returns once that is written, and only then may the session be inserted.
func (p *Place) Opening(uuid string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record.Sessions[uuid] = map[elect.Key]time.Duration{}
	return p.save()
}

// Granting notes that a far side is about to be told that it may work on a key, for at most a lease at a time. It
// returns once that is written, and only then may the grant be sent. A key that is noted already costs nothing.
func (p *Place) Granting(key elect.Key, uuid string, lease time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	granted := p.record.Sessions[uuid]
	if granted == nil || granted[key] >= lease {
		return nil
	}
	granted[key] = lease
	return p.save()
}

// Closed notes that a session is marked dead: nothing is left to do for it.
func (p *Place) Closed(uuid string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.record.Sessions, uuid)
	return p.save()
}

// Release gives the place up. The end of the process does, too.
func (p *Place) Release() { _ = p.lock.Close() }

// save replaces the file. It need not survive the machine, only this process, so nothing is forced to the disk.
func (p *Place) save() error {
	text, err := json.Marshal(p.record)
	if err != nil {
		return fmt.Errorf("note the sessions: %w", err)
	}
	fresh := p.file + ".new"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return fmt.Errorf("note the sessions: %w", err)
	}
	if err := os.Rename(fresh, p.file); err != nil {
		return fmt.Errorf("note the sessions: %w", err)
	}
	return nil
}
