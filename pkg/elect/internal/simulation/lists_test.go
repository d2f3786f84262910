package simulation

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/balancer"
)

// list is one revision of the task list. A key is known by its number everywhere; a list says which of them are
// declared.
type list struct {
	revision int
	total    int // keys there could be, declared or not
	groups   []string
	group    []int32 // by key; keys of a group follow each other, so that they are in order of their names
	place    []int32 // by key: its index in its group; -1: not declared
	keys     [][]int32
	input    balancer.Input // groups with the owners of the last snapshot; members are filled in by who asks
}

// digits is how many a key's name ends with.
const digits = 6

// A group has numbers beyond the keys that are declared at first, for lists to come. A lock stays when its key is
// removed, and each replica lists it with every sweep. With a tenth of 100,000 keys that was most of the work.
const (
	spare     = 10 // of a hundred,
	mostSpare = 500
)

func firstList(cfg Config) *list {
	each := cfg.Keys / cfg.Groups
	numbers := each + min(each*spare/100, mostSpare)
	l := &list{total: numbers * cfg.Groups}
	for g := range cfg.Groups {
		l.groups = append(l.groups, "g"+strconv.Itoa(g))
		for i := range numbers {
			l.group = append(l.group, int32(g))
			place := noSession
			if i < each {
				place = 0
			}
			l.place = append(l.place, place)
		}
	}
	l.number()
	return l
}

func (l *list) declared(key int32) bool { return l.place[key] != noSession }

// name is the key of a declared or removed number.
func (l *list) name(key int32) record.Key {
	if at := l.place[key]; at != noSession {
		return l.input.Groups[l.group[key]].Keys[at].Key
	}
	return record.NewKey(l.groups[l.group[key]], fmt.Sprintf("%0*d", digits, key))
}

// number gives the declared keys their places.
func (l *list) number() {
	l.keys = make([][]int32, len(l.groups))
	l.input.Groups = make([]balancer.Group, len(l.groups))
	for i := range l.groups {
		l.input.Groups[i].Name = l.groups[i]
	}
	for key := range l.place {
		if l.place[key] == noSession {
			continue
		}
		g := l.group[key]
		l.place[key] = int32(len(l.keys[g]))
		l.keys[g] = append(l.keys[g], int32(key))
		l.input.Groups[g].Keys = append(l.input.Groups[g].Keys, balancer.Key{
			Key: record.NewKey(l.groups[g], fmt.Sprintf("%0*d", digits, key)), Weight: 1,
		})
	}
}

// next is the list with some keys of one group removed, and as many added that were not declared.
func (l *list) next(w *world, n int) *list {
	m := &list{
		revision: l.revision + 1, total: l.total, groups: l.groups, group: l.group, place: slices.Clone(l.place),
	}
	g := int32(w.rng.IntN(len(l.groups)))
	var in, out []int32
	for key := range m.place {
		switch {
		case m.group[key] != g:
		case m.place[key] == noSession:
			out = append(out, int32(key))
		default:
			in = append(in, int32(key))
		}
	}
	w.rng.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
	w.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	for i := range min(n, len(in), len(out)) {
		m.place[in[i]], m.place[out[i]] = noSession, 0
	}
	m.number()
	return m
}
