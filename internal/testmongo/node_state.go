//go:build unix

package testmongo

// Ended says that the process has ended, or was never started. One that is frozen has not.
func (n *Node) Ended() bool { return n.ended() }
