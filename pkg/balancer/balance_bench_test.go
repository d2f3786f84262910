package balancer

import (
	"fmt"
	"testing"
)

func BenchmarkBalance(b *testing.B) {
	for _, bc := range []struct {
		name          string
		groups, total int
		change        func(*Input)
	}{
		{"cold", 1, 100_000, nil},
		{"idle", 1, 100_000, func(*Input) {}},
		{"one joins", 1, 100_000, func(in *Input) {
			in.Members = append(in.Members, Member{ID: "new", Name: "new", Caps: map[string]int{"g0": 200}})
		}},
		{"one dies", 1, 100_000, func(in *Input) { in.Members = in.Members[1:] }},
		{"ten groups", 10, 100_000, func(in *Input) { in.Members = in.Members[1:] }},
		{"ten groups, maxTasks", 10, 100_000, func(in *Input) {
			in.Members = in.Members[1:]
			for i := range in.Members {
				in.Members[i].MaxTasks = 100
			}
		}},
		{"1000 groups", 1000, 100_000, func(in *Input) { in.Members = in.Members[1:] }},
		{"zones", 1, 100_000, func(in *Input) {
			for i := range in.Members {
				in.Members[i].Zone = fmt.Sprintf("z%d", i%3)
			}
		}},
		{"weights", 1, 100_000, func(in *Input) {
			for i := range in.Groups[0].Keys {
				in.Groups[0].Keys[i].Weight = 1 + i*7919%10
			}
			in.Members = in.Members[1:]
		}},
		{"weights cold", 1, 100_000, func(in *Input) {
			for i := range in.Groups[0].Keys {
				in.Groups[0].Keys[i].Weight = 1 + i*7919%10
				in.Groups[0].Keys[i].Owner = ""
			}
		}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			in := benchInput(bc.groups, bc.total, 1000)
			if bc.change != nil {
				p := Balance(in)
				for i := range in.Groups {
					for j := range in.Groups[i].Keys {
						in.Groups[i].Keys[j].Owner = p.Groups[i].Owners[j]
					}
				}
				bc.change(&in)
			}
			b.ReportAllocs()
			for b.Loop() {
				Balance(in)
			}
		})
	}
}

func benchInput(groups, total, members int) Input {
	var in Input
	caps := map[string]int{}
	for g := range groups {
		name := fmt.Sprintf("g%d", g)
		caps[name] = 200
		in.Groups = append(in.Groups, Group{Name: name, Keys: makeKeys(name, total/groups)})
	}
	for i := range members {
		in.Members = append(in.Members, Member{
			ID: fmt.Sprintf("0d6a2c1e-7f0a-4d3b-9c1d-%012d", i), Name: fmt.Sprintf("replica-%04d", i), Caps: caps,
		})
	}
	return in
}
