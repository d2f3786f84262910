package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// watched is where a change of the configuration would show. It has the directories in which paths stand and to which
// symlinks lead, and the names of files there. It is made at each look at the files, since symlinks change, and not for
// every event.
type watched struct {
	dirs  []string
	names []string
}

// watchedBy follows each path once, by links: filepath.EvalSymlinks.
func watchedBy(paths []string, links func(string) (string, error)) watched {
	var w watched
	add := func(list *[]string, value string) {
		if !slices.Contains(*list, value) {
			*list = append(*list, value)
		}
	}
	addDir := func(dir string) {
		if abs, err := filepath.Abs(dir); err == nil {
			add(&w.dirs, abs)
		}
	}
	for _, path := range paths {
		addDir(filepath.Dir(path))
		add(&w.names, filepath.Base(path))
		target, err := links(path)
		if err != nil {
			continue
		}
		add(&w.names, filepath.Base(target))
		if info, err := os.Stat(target); err == nil && info.IsDir() {
			addDir(path)
			addDir(target)
			continue
		}
		addDir(filepath.Dir(target))
	}
	return w
}

// concerns says by its name alone whether an event may be about the configuration. Other files written in the same
// directory, a log or a database, must cost nothing. ..data is what a ConfigMap swaps.
func (w watched) concerns(file string) bool {
	base := filepath.Base(file)
	return isConfigName(base) || strings.HasPrefix(base, "..") || slices.Contains(w.names, base)
}
