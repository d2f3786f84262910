package process

// Proc is one process as it was seen. PID and Start together never name two processes.
type Proc struct {
	PID, Parent, Group int
	Start              uint64 // clock ticks since the boot
	Zombie             bool
}

// ID names a process for good.
type ID struct {
	PID   int
	Start uint64
}

// ID is what names p for good.
func (p Proc) ID() ID { return ID{p.PID, p.Start} }

// Tree is a set of processes by their parents.
type Tree map[int][]Proc

// TreeOf sorts processes by their parents.
func TreeOf(all []Proc) Tree {
	t := Tree{}
	for _, p := range all {
		t[p.Parent] = append(t[p.Parent], p)
	}
	return t
}

// Below is root and everything below it, without zombies that another process has to reap.
func (t Tree) Below(root Proc) []Proc {
	out := []Proc{root}
	for i := 0; i < len(out); i++ {
		for _, child := range t[out[i].PID] {
			if !child.Zombie || len(t[child.PID]) > 0 {
				out = append(out, child)
			}
		}
	}
	return out
}
