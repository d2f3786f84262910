package config

import "crypto/sha256"

// reloader remembers what was seen and said.
type reloader struct {
	w     *Watcher
	start *Settings         // what the process was started with
	seen  [sha256.Size]byte // of what was applied or refused
	last  [sha256.Size]byte // of what the last look found
	asked bool              // for a load, changed or not
	// changing counts the looks in a row that found another content each.
	changing int
}

// manyLooks in a row that find another content each are told.
const manyLooks = 3

// look loads the files when they hold something else than before, and the same as at the last look. It says whether
// another look is needed. Who writes a file in place does so in several steps, and each of them can be a configuration.
func (r *reloader) look() (again bool) {
	now := fingerprint(r.w.Paths)
	switch {
	case now == r.seen && !r.asked:
		r.last, r.changing = now, 0
		return false
	case now == r.seen, now == r.last:
		r.last = now
		return r.load()
	default:
		return r.changed(now)
	}
}

func (r *reloader) changed(now [sha256.Size]byte) (again bool) {
	r.last = now
	if r.changing++; r.changing == manyLooks {
		r.w.Logger.Info("The configuration is still being written: it is applied once two looks find the same")
	}
	return true
}

func (r *reloader) load() (again bool) {
	s, sum, err := loadAll(r.w.Paths, r.w.Options)
	if sum != r.last {
		return r.changed(sum)
	}
	r.seen, r.asked, r.changing = sum, false, 0
	if err != nil {
		if r.w.Refused != nil {
			r.w.Refused(err)
		}
		return false
	}
	if r.w.Applied != nil {
		r.w.Applied(r.start.WithLists(s), Changed(r.start, s))
	}
	return false
}

// fingerprint says whether the files hold what they held before.
func fingerprint(paths []string) [sha256.Size]byte {
	files, errs := findFiles(paths, false)
	sum := newSum()
	for _, err := range errs {
		sum.add(err.File, nil, err)
	}
	for _, file := range files {
		content, err := readFile(file)
		sum.add(file, content, err)
	}
	return sum.sum()
}
