// Package standin writes to the store in the place of a process that is gone. A guard marks the sessions of its worker
// dead, or keeps one alive while something of its work cannot be ended. Nobody else may call it: that nothing of a
// session's work is left is on the caller's word, and that two replicas never run one key hangs on it.
package standin
