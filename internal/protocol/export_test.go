package protocol

import (
	"maps"
	"slices"
	"strconv"
)

// AppParts are the numbers of an App by what they number, so that a search can count each from one.
type AppParts struct {
	Sessions, IDs []*string
	Seqs, Tokens  []*int64
}

// Clone is an App of its own, whose validity counts from now, and whose waiting call has the number 1.
func (a *App) Clone(now Instant) *App {
	b := *a
	b.until = appValidity{from: Instant{}, long: max(0, a.until.left(now))}
	b.keys = make(map[string]*appKey, len(a.keys))
	for name, k := range a.keys {
		key := *k
		b.keys[name] = &key
	}
	b.call.N = min(b.call.N, 1)
	b.call.Running = maps.Clone(a.call.Running)
	return &b
}

// Parts are where the numbers of an App stand. Those of a waiting call are left out.
func (a *App) Parts() AppParts {
	p := AppParts{
		Sessions: []*string{&a.session, &a.call.Session}, IDs: []*string{&a.id, &a.call.ID},
		Seqs: []*int64{&a.seq, &a.call.Seq},
	}
	for _, k := range a.keys {
		p.Tokens, p.Seqs = append(p.Tokens, &k.token), append(p.Seqs, &k.withdrawn)
	}
	return p
}

// Append writes all that an App goes by. What a waiting call lists as running was looked at when it came.
func (a *App) Append(b []byte) []byte {
	b = append(b, a.session...)
	b = append(b, '/')
	b = append(b, a.id...)
	flag := func(set bool) { b = strconv.AppendBool(append(b, ' '), set) }
	number := func(n int64) { b = strconv.AppendInt(append(b, ' '), n, 10) }
	flag(a.ready)
	number(a.seq)
	number(int64(a.until.long))
	for _, name := range slices.Sorted(maps.Keys(a.keys)) {
		k := a.keys[name]
		b = append(append(b, ' '), name...)
		number(k.token)
		number(k.withdrawn)
		flag(k.given)
	}
	flag(a.call.N != 0)
	if a.call.N != 0 {
		b = append(append(append(b, a.call.Session...), '/'), a.call.ID...)
		number(a.call.Seq)
	}
	return b
}
