package dev

// action is what a key asks for.
type action int

const (
	nothing action = iota
	killReplica
	killWorker
	stopReplica
	addReplica
	quit
)

// Bytes that a terminal in raw mode sends for keys.
const (
	ctrlC    = 0x03
	ctrlD    = 0x04
	ctrlQuit = 0x1c // Ctrl-\
	escape   = 0x1b
)

// keys understands what is typed. The zero value is ready.
type keys struct {
	number int // typed so far; 0: none
	escape int // 1: after an escape, 2: within a sequence
}

// press takes one byte. With an action comes the number typed before it, 0 for none.
func (k *keys) press(b byte) (a action, number int) {
	if k.inSequence(b) {
		return nothing, 0
	}
	switch {
	case b >= '0' && b <= '9':
		if n := k.number*10 + int(b-'0'); n <= 999 {
			k.number = n
		}
		return nothing, 0
	case b == escape:
		k.escape = 1
	case b == 'k' || b == 'K':
		a = killReplica
	case b == 'w' || b == 'W':
		a = killWorker
	case b == 's' || b == 'S':
		a = stopReplica
	case b == 'a' || b == 'A':
		a = addReplica
	case b == 'q' || b == 'Q' || b == ctrlC || b == ctrlD || b == ctrlQuit:
		a = quit
	}
	number, k.number = k.number, 0
	return a, number
}

// inSequence swallows what arrows and function keys send: an escape, [ or O, and all up to a final letter or ~.
func (k *keys) inSequence(b byte) bool {
	switch {
	case k.escape == 0:
		return false
	case k.escape == 1 && (b == '[' || b == 'O'):
		k.escape = 2
		return true
	case k.escape == 1: // the key escape by itself, and now another one
		k.escape = 0
		return false
	}
	if b >= 0x40 && b <= 0x7e {
		k.escape = 0
	}
	return true
}

// target is the name of the replica that a key acts on: that of the number, else the running one with the highest
// number, preferably one that was not asked to stop. It is "" when there is none.
func target(all []Replica, number int) string {
	name := ""
	leaving := true // the one named is
	for i, r := range all {
		switch {
		case number != 0:
			if i+1 == number {
				return r.Name
			}
		case r.State == Running:
			name, leaving = r.Name, false
		case r.State == Leaving && leaving:
			name = r.Name
		}
	}
	return name
}
