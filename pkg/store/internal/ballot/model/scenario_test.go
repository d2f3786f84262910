package ballot_test

import "github.com/shardctl/shardctl/pkg/store/internal/ballot"

// start is what the servers hold when the search begins.
type start int8

const (
	empty   start = iota
	live          // one document, at revision 1, on all servers
	deleted       // its tombstone, on all servers
)

// scenario is a start, what clients do, and the faults that may happen.
type scenario struct {
	name    string
	from    start
	scripts [][]opKind
	left    map[fault]int8
	before  []action // what has happened when the search begins
}

func (sc scenario) setting(without rule) *setting {
	s := &setting{clients: len(sc.scripts), without: without}
	copy(s.scripts[:], sc.scripts)
	return s
}

// begun is the state in which the search begins. Of two clients under one counter, the first has the higher ballot.
func (sc scenario) begun() world {
	w := world{names: maxClients}
	for p := range w.clients {
		w.clients[p].name = int8(maxClients - p)
	}
	if sc.from != empty {
		w.values[1] = written{is: ballot.Live, rev: 1, writer: 1}
		w.latest, w.writers = 1, 1
	}
	if sc.from == deleted {
		w.values[2] = written{is: ballot.Deleted, before: 1, rev: 1, writer: 2}
		w.latest, w.writers = 2, 2
	}
	if sc.from != empty {
		first := ballot.Ballot{Counter: 1}
		for i := range w.servers {
			w.servers[i].has = true
			w.servers[i].record = ballot.Acceptor[value]{
				Promised: first, Accepted: ballot.Accepted[value]{Ballot: first, Value: w.latest},
			}
		}
		for p := range w.clients {
			w.clients[p].highest = 1
			w.clients[p].memory.Saw(w.servers[0].record)
			if sc.from == live {
				w.clients[p].rev = 1
			}
		}
	}
	for f, n := range sc.left {
		w.budget[f] = n
	}
	return w
}

// after is the state that some actions lead to. Each of them has to be possible there.
func (s *setting) after(w world, before []action) world {
	at := step{setting: s, world: &w}
	for _, a := range before {
		possible := false
		at.each(func(b action) { possible = possible || a == b })
		if !possible {
			panic("not possible: " + describe(&w, a))
		}
		at.do(a)
	}
	if at.broken != "" {
		panic(at.broken)
	}
	return w
}

func ops(kinds ...opKind) []opKind { return kinds }

func scripts(of ...[]opKind) [][]opKind { return of }

// scenarios are searched with all rules. To them come those in which a rule left out shows.
func scenarios() []scenario {
	all := []scenario{
		{
			name: "two create", scripts: scripts(ops(opCreate, opPut), ops(opCreate, opRead)),
			left: map[fault]int8{retries: 2},
		},
		{
			name: "three change", from: live, scripts: scripts(ops(opPut), ops(opPut), ops(opRead)),
			left: map[fault]int8{retries: 2},
		},
		{
			name: "answers late", from: live, scripts: scripts(ops(opPut, opPut), ops(opPut, opRead)),
			left: map[fault]int8{slow: 2, retries: 1},
		},
		{
			name: "copies late", from: live, scripts: scripts(ops(opPut, opPut), ops(opPut, opRead)),
			left: map[fault]int8{copies: 1, retries: 1},
		},
		{
			name: "operations abandoned", from: live, scripts: scripts(ops(opPut, opPut), ops(opPut, opRead)),
			left: map[fault]int8{abandons: 2, retries: 1},
		},
		{
			name: "deleted and created", from: live, scripts: scripts(ops(opDelete, opCreate), ops(opPut, opRead)),
			left: map[fault]int8{retries: 2},
		},
		{
			name: "a tombstone removed", from: deleted, scripts: scripts(ops(opCreate), ops(opCreate, opRead)),
			left: map[fault]int8{hours: 1, removes: 1, copies: 1, retries: 1},
		},
		{
			name: "a disk lost", from: live, scripts: scripts(ops(opPut), ops(opPut, opRead), ops(opReadmit)),
			left: map[fault]int8{wipes: 1, retries: 1},
		},
		{
			name: "two readmit, and a disk is lost again", from: live,
			scripts: scripts(ops(opPut, opRead), ops(opReadmit), ops(opReadmit)),
			left:    map[fault]int8{wipes: 2, retries: 1},
		},
		{
			name: "all disks lost", from: live, scripts: scripts(ops(opPut, opPut), ops(opPut, opCreate)),
			left: map[fault]int8{setups: 1, crashes: 1, retries: 1},
		},
		{
			name: "documents forgotten", from: live, scripts: scripts(ops(opPut, opPut), ops(opPut, opRead)),
			left: map[fault]int8{forgets: 2, abandons: 1, retries: 1},
		},
		{
			name: "processes restart", from: live, scripts: scripts(ops(opPut, opPut), ops(opPut, opRead)),
			left: map[fault]int8{crashes: 2, retries: 1},
		},
	}
	for _, wk := range weaknesses() {
		sc := wk.scenario
		sc.name = "with all rules, " + wk.name
		all = append(all, sc)
	}
	return all
}
