//go:build unix

package testservers

import (
	"strings"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// servers are several that belong together.
type servers struct{ all []*testprocess.Server }

// add takes what was opened. An error closes those that were added before.
func (s *servers) add(opened *testprocess.Server, err error) (*testprocess.Server, error) {
	if err != nil {
		s.Close()
		return nil, err
	}
	s.all = append(s.all, opened)
	return opened, nil
}

// LogTail is the last lines of each.
func (s *servers) LogTail(lines int) string {
	var all strings.Builder
	for _, server := range s.all {
		all.WriteString(server.LogTail(lines))
	}
	return all.String()
}

// Close ends all for good.
func (s *servers) Close() {
	for _, server := range s.all {
		server.Close()
	}
}
