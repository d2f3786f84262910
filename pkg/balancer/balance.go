package balancer

// Balance plans who should own which key. It may be called concurrently. 100,000 keys of one group and 1,000 members
// take about 10 ms, with differing weights 30 ms. It takes several times as long where MaxTasks leaves too little
// capacity, or with a thousand groups. 30,000 keys of 101 groups with selectors, on 300 members whose MaxTasks
// leaves no capacity, take less than 200 ms.
func Balance(in Input) Plan {
	c := newLayout(in)
	solveAll(c)
	return planOf(c, in)
}

// rounds bounds how often a plan is improved by the plan that would follow it. Two or three are usual where there are
// any.
const rounds = 64

// solveAll decides every key's target.
//
// For groups alone, with equal weights or without pins, one round gives what no other could better. Where weights
// meet pins, or MaxTasks ties groups together, a state once reached may allow a better one. That is looked for now,
// and not at the next plan: a plan carried out must leave nothing to do.
func solveAll(c *layout) {
	for range rounds {
		again := false
		c.forget()
		for _, p := range c.groups {
			c.solveGroup(p)
			again = again || p.weighted && len(p.all) > 1
		}
		if c.roster.limited && c.overfull() {
			again = !solveLimited(c)
		}
		if !again || c.startAgain() {
			return
		}
	}
	if c.roster.limited {
		fitLimits(c)
	}
}

// solveLimited makes the plan fit MaxTasks, once each group has been solved alone. It says whether what is held is as
// good and was kept.
func solveLimited(c *layout) (kept bool) {
	fitLimits(c)
	if !heldIsBest(c) {
		return false
	}
	for _, p := range c.groups {
		c.keepHeld(p)
	}
	return true
}
