package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// other is a package that the sources of the test import.
const other = `package other

// Kept is a type.
type Kept struct{ Left int }

// Open opens it.
func (k *Kept) Open() {}
`

const noProse = `
	func count() {}
	// run prints "no Count" and [Count], and
	//
	//	as Count
	//
	// and the header Count-Of.
	func run() {}`

// TestHits has for each rule what is found, some of which renames have left in this module, and what is near to it and
// is not.
func TestHits(t *testing.T) {
	for _, test := range []struct{ name, code, want string }{
		{"renamed method of the type", `
			type Keys struct{}
			func (k *Keys) prepare() {}
			// advance goes on after Prepare.
			func (k *Keys) advance() {}`, "Prepare: no such member of the type; prepare is"},
		{"renamed field of the type", `
			type Session struct{
				verified int // the moment
				// renewed is later than Verified.
				renewed int
			}`, "Verified: no such member of the type; verified is"},
		{"renamed member, which is used of something else", `
			type queue struct{ next int }
			var used = foreign.Next
			// wait waits for Next to come.
			func (q *queue) wait() {}`, "Next: no such member of the type; next is"},
		{"renamed constant", `
			const judged = 1
			type event struct {
				Dead bool // of Judged
			}`, "Judged: no such name here; judged is"},
		{"renamed function, in a function", `
			func count() {}
			func run() {
				// this is what Count does
				count()
			}`, "Count: no such name here; count is"},
		{"the name is there", `
			type Keys struct{}
			func (k *Keys) Prepare() {}
			func (k *Keys) prepare() {}
			// advance goes on after Prepare.
			func (k *Keys) advance() {}`, ""},
		{"an import has the name", `
			import "example.org/m/other"
			var _ other.Kept
			func open() {}
			// run begins with an Open of that.
			func run() {}`, ""},
		{"a sentence begins", `
			func count() {}
			// run does it. Count on it: Count comes first. (Count it.)
			func run() {}`, ""},
		{"what is no prose", noProse, ""},
		{"a product", `
			func mariaDB() {}
			// run asks a server of MariaDB.
			func run() {}`, ""},
		{"a member that is gone", `
			type Result struct{ Items int }
			// run returns Result.Total of them.
			func run() {}`, "Result.Total: Result has no Total"},
		{"a doc link to a member that is gone", `
			type Mutexes struct{}
			func (m *Mutexes) end() {}
			// run ends them, see [Mutexes.End].
			func run() {}`, "Mutexes.End: Mutexes has no End"},
		{"a name that a package has no more", `
			import "example.org/m/other"
			// run makes an other.Gone of it.
			func run(other.Kept) {}`, "other.Gone: package other has no Gone"},
		{"a type that is nowhere", `
			// run makes a Former.Name of it.
			func run() {}`, "Former.Name: there is no type Former"},
		{"members that are there", `
			import "example.org/m/other"
			type mine struct{ *other.Kept }
			type Config struct{ *foreign.Config }
			// run takes mine.Left, calls other.Kept, and knows nothing of Config.Any, foreign.Any, server.listen and doc.go.
			func run() {}`, ""},
		{"the end of the name comes first", `
			// want is what is read.
			type readWant struct{}`, "want: the name is readWant"},
		{"the name in other letters comes first", `
			// Run runs.
			func run() {}
			// stop stops.
			func Stop() {}`, "stop: the name is Stop"},
		{"another word comes first", `
			// what readWant is for.
			type readWant struct{}
			// wants says how many.
			func readWants2() {}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := &tree{module: "example.org/m", files: token.NewFileSet(), pkgs: map[string]*pkg{}}
			for name, code := range map[string]string{"other/other.go": other, "own/own.go": "package own\n" + test.code} {
				syntax, err := parser.ParseFile(all.files, name, code, parser.ParseComments|parser.SkipObjectResolution)
				if err != nil {
					t.Fatal(err)
				}
				all.add(name, syntax)
			}
			var texts []string
			for _, h := range all.check() {
				texts = append(texts, h.Text)
			}
			if got := strings.Join(texts, "; "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
