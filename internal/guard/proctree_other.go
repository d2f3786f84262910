//go:build !linux

package guard

import (
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// canSurvey says that a command is its process group and nothing else: what leaves the group cannot be found.
const canSurvey = false

func becomeSubreaper() error { return nil }

// look asks of each group whether anything of it is left.
func (s suspects) look() survey {
	out := survey{owned: map[uint64][]proc{}}
	for group, id := range s.groups {
		if unix.Kill(-group, 0) == nil {
			out.owned[id] = append(out.owned[id], proc{pid: -group, group: group})
		}
	}
	return out
}

func (p proc) signal(sig unix.Signal) {
	_ = unix.Kill(p.pid, sig) // fails when it has ended
}

// killFound kills the groups of the victims.
func killFound(v victims, _ protocol.Instant) {
	for group := range v.groups {
		_ = unix.Kill(-group, unix.SIGKILL)
	}
}
