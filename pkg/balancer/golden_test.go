package balancer

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/elect"
)

var update = flag.Bool("update", false, "write what Balance does into testdata")

// A scenario in testdata reads like prose. Lines that begin with # are comments; a line that begins with
//
//	group NAME KEYS [weight=N,N,…] [LABEL=VALUE…]  declares a group of keys NAME/01, NAME/02, …
//	join NAME [zone=Z] [revision=R] [max=N] [cap.GROUP=N] [LABEL=VALUE…]  adds a member
//	drain NAME, die NAME, restart NAME  changes one
//	cap NAME GROUP N
//	pin KEY PIN [strict], unpin KEY, settle KEY, pause KEY, resume KEY, reserve KEY NAME
//	even  asks for even quotas with two revisions
//	plan  balances, shows the moves and who owns what then, and carries it out
//
// is a step, and what plan shows stands below it, indented.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playScenario(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s differs; it would now read:\n%s", file, got)
			}
		})
	}
}

// playScenario returns the scenario with what plan shows written again.
func playScenario(t *testing.T, text string) string {
	t.Helper()
	s := scene{t: t}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "    ") {
			continue
		}
		out.WriteString(line)
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		out.WriteString(s.step(words[0], words[1:]))
	}
	return out.String()
}

type scene struct {
	t     *testing.T
	in    Input
	clock int64
}

func (s *scene) step(verb string, args []string) string {
	s.t.Helper()
	switch verb {
	case "group":
		s.group(args)
	case "join":
		s.join(args)
	case "drain", "die", "restart", "cap":
		s.member(verb, args)
	case "pin", "unpin", "settle", "pause", "resume", "reserve":
		s.key(verb, args)
	case "even":
		s.in.Even = true
	case "plan":
		return s.plan()
	default:
		s.t.Fatalf("unknown step %q", verb)
	}
	return ""
}

func (s *scene) number(text string) int {
	s.t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *scene) group(args []string) {
	s.t.Helper()
	g := Group{Name: args[0]}
	for i := range s.number(args[1]) {
		g.Keys = append(g.Keys, Key{Key: elect.NewKey(g.Name, fmt.Sprintf("%02d", i+1)), Weight: 1})
	}
	for _, arg := range args[2:] {
		name, value, _ := strings.Cut(arg, "=")
		if name != "weight" {
			g.Selector = map[string]string{name: value}
			continue
		}
		for i, w := range strings.Split(value, ",") {
			g.Keys[i].Weight = s.number(w)
		}
	}
	s.in.Groups = append(s.in.Groups, g)
}

func (s *scene) join(args []string) {
	s.t.Helper()
	s.clock++
	m := Member{ID: args[0], Name: args[0], Opened: s.clock, Caps: map[string]int{}, Labels: map[string]string{}}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		group, isCap := strings.CutPrefix(name, "cap.")
		switch {
		case name == "zone":
			m.Zone = value
		case name == "revision":
			m.Revision = value
		case name == "max":
			m.MaxTasks = s.number(value)
		case isCap:
			m.Caps[group] = s.number(value)
		default:
			m.Labels[name] = value
		}
	}
	s.in.Members = append(s.in.Members, m)
}

func (s *scene) member(verb string, args []string) {
	s.t.Helper()
	i := slices.IndexFunc(s.in.Members, func(m Member) bool { return m.Name == args[0] })
	if i < 0 {
		s.t.Fatalf("no member %q", args[0])
	}
	m := &s.in.Members[i]
	switch verb {
	case "drain":
		m.Draining = true
	case "cap":
		m.Caps[args[1]] = s.number(args[2])
	case "restart":
		s.clock++
		m.ID, m.Opened = fmt.Sprintf("%s'", m.ID), s.clock
	case "die":
		s.in.Members = slices.Delete(s.in.Members, i, i+1)
	}
}

func (s *scene) key(verb string, args []string) {
	s.t.Helper()
	k := s.find(elect.Key(args[0]))
	switch verb {
	case "pin":
		k.Pin, k.Strict = args[1], len(args) > 2
	case "unpin":
		k.Pin, k.Strict = "", false
	case "settle":
		k.Settled = true
	case "pause", "resume":
		k.Paused = verb == "pause"
	case "reserve":
		k.Reserved = args[1]
	}
}

func (s *scene) find(key elect.Key) *Key {
	s.t.Helper()
	for gi := range s.in.Groups {
		for ki := range s.in.Groups[gi].Keys {
			if k := &s.in.Groups[gi].Keys[ki]; k.Key == key {
				return k
			}
		}
	}
	s.t.Fatalf("no key %q", key)
	return nil
}

func (s *scene) plan() string {
	p := Balance(s.in)
	var out strings.Builder
	writeMoves(&out, movesOf(s.in, p))
	for gi, g := range s.in.Groups {
		s.writeGroup(&out, g, p.Groups[gi])
	}
	for _, u := range p.Unassigned {
		fmt.Fprintf(&out, "    %s is left over: %s\n", u.Key, u.Reason)
	}
	s.in = apply(s.in, p)
	return out.String()
}

// writeMoves sums moves up: how many from which member to which, and why.
func writeMoves(out *strings.Builder, moves []move) {
	if len(moves) == 0 {
		out.WriteString("    nothing moves\n")
		return
	}
	var order []string
	number := map[string]int{}
	for _, m := range moves {
		line := fmt.Sprintf("%s → %s: %s", m.From, m.To, m.Reason)
		if m.From == "" {
			line = "→ " + m.To
		}
		if number[line] == 0 {
			order = append(order, line)
		}
		number[line]++
	}
	slices.Sort(order)
	fmt.Fprintf(out, "    moves: %d\n", len(moves))
	for _, line := range order {
		fmt.Fprintf(out, "      %2d %s\n", number[line], line)
	}
}

func (s *scene) writeGroup(out *strings.Builder, g Group, p GroupPlan) {
	headroom := "no limit"
	if p.Stats.Headroom != nil {
		headroom = strconv.Itoa(*p.Stats.Headroom)
	}
	fmt.Fprintf(out, "    %s: %d of %d owned, headroom %s\n", g.Name, p.Stats.Assigned, p.Stats.Tasks, headroom)
	for _, m := range s.in.Members {
		owned, load := 0, 0
		for ki, id := range p.Owners {
			if id == m.ID {
				owned++
				load += g.Keys[ki].Weight
			}
		}
		label := strings.TrimSpace(strings.Join([]string{m.ID, m.Zone, m.Revision}, " "))
		weight := ""
		if load != owned {
			weight = fmt.Sprintf(" weighing %d", load)
		}
		fmt.Fprintf(out, "      %-8s %s %d%s\n", label, strings.Repeat("■", owned), owned, weight)
	}
}
