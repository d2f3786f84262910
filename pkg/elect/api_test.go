package elect_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The words of package protocol stay inside. What passes is an alias, or a constant of one: it has its own name here.
func TestNothingOfTheProtocolIsExported(t *testing.T) {
	for _, decl := range exported(t) {
		ast.Inspect(decl, func(n ast.Node) bool {
			switch spec := n.(type) {
			case *ast.TypeSpec:
				if spec.Assign.IsValid() {
					return false
				}
			case *ast.ValueSpec:
				return spec.Type != nil
			}
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if from, ok := sel.X.(*ast.Ident); ok && from.Name == "protocol" {
				t.Errorf("a declaration is exported that mentions protocol.%s", sel.Sel.Name)
			}
			return true
		})
	}
}

// An elector is for those who lock keys. What a balancer asks of it is behind one method.
func TestTheElectorShowsLocksAndOneDoor(t *testing.T) {
	allowed := map[string]bool{
		"Lock": true, "Unlock": true, "HoldingKeys": true, "LockedKeys": true, "Close": true, // Elect
		"LockWith": true, "Holder": true, "Start": true, "Wait": true, "Run": true, "Done": true, "Cluster": true,
		"Session": true, // for who keeps documents of its own under the elector's lease
		// for what a process beside this one may do under the lease
		"SessionDeadline": true,
		"Mutexes":         true, // for package mutex
		"LeaseDuration":   true, // for package jobs
	}
	for _, decl := range exported(t) {
		method, ok := decl.(*ast.FuncDecl)
		if !ok || method.Recv == nil {
			continue
		}
		star, ok := method.Recv.List[0].Type.(*ast.StarExpr)
		if !ok {
			continue
		}
		if on, ok := star.X.(*ast.Ident); ok && on.Name == "Elector" && !allowed[method.Name.Name] {
			t.Errorf("Elector has the method %s: does it belong to Cluster?", method.Name.Name)
		}
	}
}

// exported are the exported declarations of the package, without the bodies of its functions.
func exported(t *testing.T) []ast.Decl {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(set, files, "pkg")
	if err != nil {
		t.Fatal(err)
	}
	var decls []ast.Decl
	values := func(of []*doc.Value) {
		for _, v := range of {
			decls = append(decls, v.Decl)
		}
	}
	funcs := func(of []*doc.Func) {
		for _, f := range of {
			decls = append(decls, f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, typ := range p.Types {
		decls = append(decls, typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
	}
	if len(decls) == 0 {
		t.Fatal("nothing is exported")
	}
	return decls
}
