package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect"
)

var (
	// ErrNotInPlace says that nothing proves that this process follows another one in the same container: wait for the
	// lease, as after any death.
	ErrNotInPlace = errors.New("no restart in place")
	// ErrForgotten says that a place could not note something, and has removed all that it had noted: a successor will
	// wait for the lease. It is returned once; from then on the place notes nothing.
	ErrForgotten = errors.New("the record of this container was removed: once restarted it will wait for the lease")
)

// Place is the memory of a container across its restarts. It is a file on a volume of the pod and a lock file next to
// it. The lock is held for as long as the worker or its guard lives. A container that was killed whole, guard included,
// cannot mark its sessions. The next process in the same place can, at once, since everything of the last one ended
// with its PID 1.
type Place struct {
	file string
	lock *os.File

	mu     sync.Mutex
	record record
	over   bool // it notes nothing any more
}

// InPlace takes the place that dir stands for and returns the sessions that a predecessor left, to be marked dead. Each
// of its keys under a remote lease stays held for as long as was noted, from the making of the elector on. It must be
// called before a session is opened. The error wraps [ErrNotInPlace] when the guard is not PID 1, the identity is not
// known, or another process holds the place.
//
// Once a predecessor's session is marked, say so by [Place.Closed].
func (c *Client) InPlace(ctx context.Context, dir string, id Identity) (*Place, []electing.Session, error) {
	if c.guard != 1 {
		text := "%w: the guard is process %d and not 1: tasks may have outlived it"
		return nil, nil, fmt.Errorf(text, ErrNotInPlace, c.guard)
	}
	p, left, err := takePlace(dir, id)
	if err != nil {
		return nil, nil, err
	}
	// The guard outlives this process for a moment, and so do its tasks.
	if err := c.HoldLock(ctx, p.lock); err != nil {
		p.Release()
		return nil, nil, err
	}
	return p, left, nil
}

func takePlace(dir string, id Identity) (*Place, []electing.Session, error) {
	if id.PodUID == "" || id.Container == "" {
		return nil, nil, fmt.Errorf("%w: the pod's UID or the container's name is not known", ErrNotInPlace)
	}
	boot, err := bootID()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNotInPlace, err)
	}
	//nolint:gosec // G304: the directory is the operator's choice
	lock, err := os.OpenFile(filepath.Join(dir, "place.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("take the place: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("%w: another process holds %s: %w", ErrNotInPlace, lock.Name(), err)
	}
	p := &Place{file: filepath.Join(dir, "place.json"), lock: lock}
	p.record = record{Identity: id, Boot: boot, Sessions: map[string]map[elect.Key]time.Duration{}}
	old, err := readRecord(p.file)
	if err == nil && (old.Identity != id || old.Boot != boot) {
		old.Sessions, err = nil, p.record.save(p.file)
	}
	if err != nil {
		p.Release()
		return nil, nil, err
	}
	var left []electing.Session
	for uuid, keys := range old.Sessions {
		p.record.Sessions[uuid] = keys
		left = append(left, electing.Session{ID: uuid, Remote: maps.Clone(keys)})
	}
	return p, left, nil
}

// Opening notes a session. It returns once that is written, and only then may the session be inserted.
func (p *Place) Opening(uuid string) error {
	return p.note(func(r record) bool {
		r.Sessions[uuid] = map[elect.Key]time.Duration{}
		return true
	})
}

// maxRemote bounds the bytes of a session's remote leases: a mark can carry no more, and each new one writes them all.
const maxRemote = 48 << 10

// RemoteLease notes that an HTTP endpoint or an application is about to get a lease for a key, for at most so long at a
// time.
// It returns once that is written, and only then may the endpoint be informed. A key that is noted already costs
// nothing. A session with very many remote leases is forgotten: it cannot be marked without them.
func (p *Place) RemoteLease(key elect.Key, uuid string, lease time.Duration) error {
	return p.note(func(r record) bool {
		keys := r.Sessions[uuid]
		if keys == nil || keys[key] >= lease {
			return false
		}
		keys[key] = lease
		if remoteBytes(keys) > maxRemote {
			delete(r.Sessions, uuid)
		}
		return true
	})
}

func remoteBytes(keys map[elect.Key]time.Duration) int {
	n := 0
	for key := range keys {
		n += len(key) + len(`"":86400000,`)
	}
	return n
}

// Closed notes that a session is marked dead: nothing is left to do for it.
func (p *Place) Closed(uuid string) error {
	return p.note(func(r record) bool {
		_, noted := r.Sessions[uuid]
		delete(r.Sessions, uuid)
		return noted
	})
}

// note changes the record. What cannot be noted must not be missing in silence: a successor would mark a session dead
// without its remote leases. So the record is removed then.
func (p *Place) note(change func(record) (changed bool)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || !change(p.record) {
		return nil
	}
	err := p.record.save(p.file)
	if err == nil {
		return nil
	}
	if gone := removeRecord(p.file); gone != nil {
		return errors.Join(err, gone)
	}
	p.over = true
	return fmt.Errorf("%w: %w", ErrForgotten, err)
}

// Release releases the place here. The end of the process does, too; the guard holds it until its own end.
func (p *Place) Release() { _ = p.lock.Close() }

// Identity says which container of which pod this is.
type Identity struct {
	PodUID    string `json:"podUid"`
	Container string `json:"container"`
}

// record is what a place notes in its file.
type record struct {
	Identity
	// Boot says since which start of the machine. The file is not forced to the disk: after a power cut what it says
	// may be old.
	Boot string `json:"boot"`
	// Sessions are by uuid: the keys ever under a remote lease, and the longest that it may last.
	Sessions map[string]map[elect.Key]time.Duration `json:"sessions"`
}

// maxLease is the longest lease there is.
const maxLease = 24 * time.Hour

// readRecord reads what was noted. A malformed record proves nothing, as if it were not there.
func readRecord(file string) (record, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the directory is the operator's choice
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("read what was here before: %w", err)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil || !r.sound() {
		return record{}, nil //nolint:nilerr // as the comment says
	}
	return r, nil
}

func (r record) sound() bool {
	for id, keys := range r.Sessions {
		if uuid.Validate(id) != nil || keys == nil {
			return false
		}
		for key, lease := range keys {
			if key == "" || lease <= 0 || lease > maxLease {
				return false
			}
		}
	}
	return true
}

// save replaces the file. It need not survive the machine, only this process, so nothing is forced to the disk.
func (r record) save(file string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("note the sessions: %w", err)
	}
	fresh := file + ".new"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		_ = os.Remove(fresh) // on a full disk half of it
		return fmt.Errorf("note the sessions: %w", err)
	}
	if err := os.Rename(fresh, file); err != nil {
		return fmt.Errorf("note the sessions: %w", err)
	}
	return nil
}

// removeRecord removes a record.
func removeRecord(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record: %w", err)
	}
	return nil
}

// bootID names the machine's present start.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("find out which start of the machine this is: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
