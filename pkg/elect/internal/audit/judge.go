package audit

import "github.com/shardctl/shardctl/pkg/elect/record"

// Verdict is what is to be done about a lock that was suspected and read.
type Verdict uint8

// The verdicts on a lock.
const (
	Fine    Verdict = iota // nothing but to remember what was read
	Correct                // what was known is wrong: remember what was read, also at a lower revision
	Lose                   // correct, and let go of the key: its lock names another or is absent
	Free                   // the lock names the own session and is not held here: free it
	Restore                // the lock was deleted: create it again, without an owner
)

// Judge says what is to be done about a lock as a linearizable read found it; found is nil when it is absent.
// session is the own one. held says that the key is not free here, settled that it runs without a write under way:
// where one is, its answer says.
func Judge(found *record.Lock, session string, held, settled bool) Verdict {
	switch {
	case held && !settled:
		return Fine
	case held && found != nil && found.Session == session:
		return Fine
	case held:
		return Lose
	case found == nil:
		return Restore
	case found.Session == session:
		return Free
	}
	return Correct
}
