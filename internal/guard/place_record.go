package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/pkg/elect"
)

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
	// Sessions are by uuid: the keys ever under a remote lease, and T.
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
