//go:build unix

package testprocess

import (
	"bytes"
	"fmt"
	"strings"
)

// Addr is HOST:PORT of clients. It stays the same.
func (s *Server) Addr() string { return s.site.Addr(0) }

// Name is what [Open] was given.
func (s *Server) Name() string { return s.name }

// Site is where it lives.
func (s *Server) Site() *Site { return s.site }

// Dir is the directory with its data and its log.
func (s *Server) Dir() string { return s.site.Dir }

// Software is its kind's programs.
func (s *Server) Software() Software { return s.software }

// PID is the process ID of the server last started.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.children[len(s.children)-1].pid()
}

// LogTail is the last lines that the server printed, to be shown when a test fails.
func (s *Server) LogTail(lines int) string {
	text := bytes.TrimSpace(s.site.Output())
	if len(text) == 0 {
		return ""
	}
	all := bytes.Split(text, []byte("\n"))
	var out strings.Builder
	fmt.Fprintf(&out, "\n--- %s at %s", s.name, s.Addr())
	for _, line := range all[max(0, len(all)-lines):] {
		fmt.Fprintf(&out, "\n%s", line)
	}
	return out.String()
}

// Running says whether the server's process runs, frozen or not.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running()
}
