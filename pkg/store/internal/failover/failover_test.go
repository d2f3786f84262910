package failover_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/test/search"
)

var (
	statesFlag = flag.Int("model.states", 0, "states to visit at most in each scenario; 0: 100,000 in the large "+
		"ones and all in the others of the suite of models, 3,000 elsewhere")
	update = flag.Bool("update", false, "write the counterexamples to testdata")
)

var limits = search.Limits{Small: 3_000, Large: 100_000}

// three nodes, two clients; A runs the key.
func threeNodes(change ...func(*redisSetting)) redisSetting {
	s := redisSetting{nodes: 3, configured: 3}
	for p := range maxClients {
		s.lease[p], s.run[p] = leaseTicks, runTicks
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

func oneNode(change ...func(*redisSetting)) redisSetting {
	s := threeNodes(change...)
	s.nodes, s.configured = 1, 1
	return s
}

func fresh(s *redisSetting) { s.fresh = true }

func configuredFive(s *redisSetting) { s.configured = 5 }

// begun is the state from which a search begins: node 1 is the master that all follow, and A runs the key.
func (s *redisSetting) begun(left map[dbFault]int8) forgetful {
	w := redisWorld{redisSetting: s}
	if s.clocked {
		w.clock = [leaseTicks]int8{7, 5, 3}
	}
	id := identity{lineage: 1}
	d := dataset{
		gate: w.seen(id), under: w.seen(id), waited: s.lease[b], owner: 1, rev: 3, met: 1<<min(s.nodes, s.configured) - 1,
	}
	for i := range maxClients {
		d.sessions[i] = sessionDoc{docAlive, 1}
	}
	if s.fresh {
		d = dataset{}
	}
	for i := range s.nodes {
		w.forgetful.nodes[i] = dbNode{follows: 1, stream: 1, data: d}
	}
	w.forgetful.nodes[0].master, w.forgetful.nodes[0].follows, w.forgetful.nodes[0].id = true, 0, id
	s.disk = d
	if s.fresh {
		for p := range w.clients {
			w.clients[p] = client{on: true, session: int8(p)}
		}
		return w.within(left)
	}
	for p := range w.clients {
		w.clients[p] = client{
			on: true, session: int8(p), id: w.seen(id), since: s.lease[p] + 1, course: 1, heartbeat: 1,
		}
		w.clients[p].peers[1-p] = sighted{known: true, heartbeat: 1}
	}
	a := &w.clients[0]
	a.mine, a.runs, a.lockRev = true, true, 3
	a.peers = [maxSessions]sighted{}
	if s.clocked {
		w.highest = 3
		for p := range w.clients {
			w.clients[p].heard = 3
		}
	}
	b := &w.clients[1]
	b.cached, b.owner, b.rev = true, 1, 3
	return w.within(left)
}

// within is the state with a budget of faults.
func (w *redisWorld) within(left map[dbFault]int8) forgetful {
	for f, n := range left {
		w.budget[f] = n
	}
	return w.forgetful
}

// after is the state that some actions lead to.
func (s *redisSetting) after(first forgetful, before []dbAction) forgetful {
	w := redisWorld{redisSetting: s, forgetful: first}
	w.normal()
	for _, a := range before {
		w.do(a)
		w.normal()
	}
	if w.broken != "" {
		panic(w.broken)
	}
	return w.forgetful
}

// scenario is a store and the faults that it may have.
type scenario struct {
	name    string
	setting redisSetting
	left    map[dbFault]int8
	before  []dbAction
	large   bool // more states than `go test ./...` visits
}

// scenarios are searched each for itself, with all rules. To them come those in which a rule left out shows.
func scenarios() []scenario {
	all := []scenario{
		{name: "a failover", setting: threeNodes(), left: map[dbFault]int8{failover: 1}},
		{
			name: "a failover that others follow", setting: threeNodes(),
			left:  map[dbFault]int8{failover: 1, relink: 1},
			large: true,
		},
		{name: "a replica goes and comes back", setting: threeNodes(), left: map[dbFault]int8{relink: 2, unlink: 1}},
		{name: "answers lost", setting: threeNodes(), left: map[dbFault]int8{lostReply: 2, slow: 1}},
		{
			name: "a failover, scripts slow", setting: threeNodes(),
			left: map[dbFault]int8{failover: 1, relink: 1, slow: 1}, large: true,
		},
		{
			name: "a failover, keys given up", setting: threeNodes(),
			left: map[dbFault]int8{failover: 1, relink: 1, handBack: 1}, large: true,
		},
		{
			name: "a failover and back", setting: threeNodes(),
			left: map[dbFault]int8{failover: 1, relink: 3}, large: true,
		},
		{
			name: "a failover, processes come and go", setting: threeNodes(),
			left: map[dbFault]int8{failover: 1, relink: 1, visits: 3, dies: 1}, large: true,
		},
		{name: "two failovers", setting: threeNodes(), left: map[dbFault]int8{failover: 2, relink: 2}, large: true},
		{
			name: "old files", setting: threeNodes(), left: map[dbFault]int8{oldFile: 1, relink: 2}, large: true,
		},
		{
			name: "processes die, others begin", setting: threeNodes(),
			left: map[dbFault]int8{failover: 1, relink: 1, dies: 1, reopen: 1}, large: true,
		},
		{
			name: "copies late", setting: threeNodes(),
			left: map[dbFault]int8{failover: 1, relink: 1, slow: 1, copies: 1}, large: true,
		},
		{
			name: "clocks of masters differ", setting: threeNodes(clocked),
			left: map[dbFault]int8{failover: 1, relink: 1, handBack: 1}, large: true,
		},
		{
			name: "five nodes", setting: threeNodes(fiveNodes, configuredFive),
			left:  map[dbFault]int8{failover: 1, relink: 2},
			large: true,
		},
		{
			name: "a new database, opened by an operator", setting: threeNodes(fresh),
			left: map[dbFault]int8{opening: 2, failover: 1, relink: 2}, large: true,
		},
		{name: "one node", setting: oneNode(), left: map[dbFault]int8{oldFile: 2, slow: 1, handBack: 1}, large: true},
	}
	for _, wk := range weaknesses() {
		if !wk.unkept {
			large := !slices.Contains(small, wk.name)
			all = append(all, scenario{"with all rules, " + wk.name, wk.setting, wk.left, wk.before, large})
		}
	}
	return all
}

// small are the weakenings whose scenarios can be searched whole.
var small = []string{
	"heartbeat-without-wait", "lists-anywhere", "deaths-remembered", "acks-of-nodes", "acks-of-a-majority",
}

// No order of events within bounds breaks a promise.
func TestFailover(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(search.TestName(sc.name), func(t *testing.T) {
			t.Parallel()
			sc.setting.search(sc.setting.begun(sc.left), sc.before).Holds(t, limits, *statesFlag, sc.large)
		})
	}
}

// deep are the weakenings that a search finds after ten times as many states as the others.
var deep = []string{
	"script-writes-nothing", "nodes-counted-at-once", "gate-from-sending", "full-syncs-only", "identity-once",
}

// Each rule is needed: without it the search finds how a promise breaks. The shortest ways are kept in testdata.
func TestWeakenings(t *testing.T) {
	for _, wk := range weaknesses() {
		t.Run(wk.name, func(t *testing.T) {
			t.Parallel()
			setting := wk.setting
			setting.without = wk.by
			rule := search.Rule{Name: wk.name, Text: wk.rule, Breaks: wk.breaks, Deep: slices.Contains(deep, wk.name)}
			setting.search(setting.begun(wk.left), wk.before).Breaks(t, rule, 3_000_000, *update)
		})
	}
}
