package config

import "crypto/sha256"

// reloader remembers what was seen and said.
type reloader struct {
	w     *Watcher
	start *Settings // what the process was started with
	seen  [sha256.Size]byte
}

// look loads the files when they hold something else than before.
func (r *reloader) look() {
	if now := fingerprint(r.w.Paths); now != r.seen {
		r.load()
	}
}

func (r *reloader) load() {
	r.seen = fingerprint(r.w.Paths)
	s, err := Load(r.w.Paths, r.w.Options)
	if err != nil {
		if r.w.Refused != nil {
			r.w.Refused(err)
		}
		return
	}
	if r.w.Applied != nil {
		r.w.Applied(r.start.WithLists(s), Changed(r.start, s))
	}
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
