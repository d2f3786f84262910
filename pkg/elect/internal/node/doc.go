// Package node composes the components of one process into a node that a caller drives.
//
// The components decide, and return what is to be done. A [Node] hands them events and carries their effects to each
// other, and to the outside through the interfaces of [Config]. It starts no goroutine, waits for nothing and reads no
// clock of its own. The loop of package elect drives it with goroutines, timers and a store, a simulation with a queue
// of events.
//
// A caller hands over one event after the other, calls [Node.Settle] after each, and [Node.Tick] after a few of
// them and whenever [Node.Sleep] has passed.
package node
