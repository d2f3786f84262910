package discover

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxTaskName is how many bytes the name of a task may have.
const maxTaskName = 249

// longMark stands before the hash in a name that was too long. No other name holds it.
const longMark = "_-"

// TaskName is the name of the task that is made for what was found. Two never have the same, as long as either all of a
// list have a partition or none has.
//
// Letters, digits, '.', '-' and '_' stay. Every other byte becomes _XX, its value in upper-case hex. So does what would
// be read as such: '_' before two upper-case hex digits or '-' or at the end, and '.' or '-' at the beginning. A
// partition follows after a '-'. A name that would be longer than 249 bytes keeps its beginning and ends with "_-" and
// the first 16 bytes of its SHA-256 in hex.
func TaskName(name, partition string) string {
	tail := ""
	if partition != "" {
		tail = "-" + partition
	}
	text := escape(name)
	if len(text)+len(tail) > maxTaskName {
		sum := sha256.Sum256([]byte(name))
		hash := longMark + hex.EncodeToString(sum[:16])
		text = text[:maxTaskName-len(hash)-len(tail)] + hash
	}
	return text + tail
}

func escape(name string) string {
	var out strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(name, i) {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "_%02X", c)
		}
	}
	return out.String()
}

// plain says whether the byte at i stays as it is.
func plain(name string, i int) bool {
	switch c := name[i]; {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	case c == '.', c == '-':
		return i > 0
	case c == '_':
		rest := name[i+1:]
		return rest != "" && rest[0] != '-' && (len(rest) < 2 || !isHex(rest[0]) || !isHex(rest[1]))
	default:
		return false
	}
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'F' }
