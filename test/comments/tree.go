package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pkg is the files of one package, and the names that they declare.
type pkg struct {
	files   []*source
	scope   map[string]bool // declared at the top
	types   map[string]*typ
	members map[string]bool // of any type
	used    map[string]bool // behind a dot, or as a key of a literal
}

// typ is a type with its fields and methods.
type typ struct {
	members  map[string]bool
	embedded []string // as the file names them
	file     *source  // nil: it is not declared here
}

type source struct {
	path    string // from the root, with slashes
	syntax  *ast.File
	imports map[string]string // by the name in this file: the directory in this module; "" for any other
	pkg     *pkg
}

// tree is the packages of a module, by directory.
type tree struct {
	module string
	files  *token.FileSet
	pkgs   map[string]*pkg
}

// read parses the Go files below a root, but for modules of their own.
func read(root, module string) (*tree, error) {
	t := &tree{module: module, files: token.NewFileSet(), pkgs: map[string]*pkg{}}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			nested, _ := filepath.Glob(filepath.Join(file, "go.mod")) // the pattern is one
			skip := slices.Contains([]string{"testdata", "node_modules"}, entry.Name()) || entry.Name()[0] == '.'
			if name != "." && (skip || len(nested) > 0) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		syntax, err := parser.ParseFile(t.files, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		t.add(name, syntax)
		return nil
	})
	return t, err
}

// add takes a file. Its package is that of its directory; external tests are one of their own.
func (t *tree) add(name string, syntax *ast.File) {
	dir := path.Dir(name)
	if strings.HasSuffix(syntax.Name.Name, "_test") {
		dir += " test"
	}
	p := t.pkgs[dir]
	if p == nil {
		p = &pkg{
			scope: map[string]bool{}, types: map[string]*typ{}, members: map[string]bool{}, used: map[string]bool{},
		}
		t.pkgs[dir] = p
	}
	f := &source{path: name, syntax: syntax, imports: map[string]string{}, pkg: p}
	p.files = append(p.files, f)
	for _, spec := range syntax.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		local := path.Base(imported)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		inside, ok := strings.CutPrefix(imported, t.module+"/")
		if !ok {
			inside = ""
		}
		f.imports[local] = inside
	}
	for _, d := range syntax.Decls {
		f.declare(d)
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			p.used[n.Sel.Name] = true
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				p.used[key.Name] = true
			}
		}
		return true
	})
}

func (f *source) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			f.pkg.scope[d.Name.Name] = true
			return
		}
		f.pkg.members[d.Name.Name] = true
		f.pkg.typ(receiver(d)).members[d.Name.Name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					f.pkg.scope[name.Name] = true
				}
			case *ast.TypeSpec:
				f.pkg.scope[spec.Name.Name] = true
				t := f.pkg.typ(spec.Name.Name)
				t.file = f
				f.fill(t, spec.Type)
			}
		}
	}
}

func (p *pkg) typ(name string) *typ {
	if p.types[name] == nil {
		p.types[name] = &typ{members: map[string]bool{}}
	}
	return p.types[name]
}

// fill takes the fields and methods of a type. One that is defined by another type has those of that.
func (f *source) fill(t *typ, of ast.Expr) {
	switch of := of.(type) {
	case *ast.StructType:
		f.fields(t, of.Fields)
	case *ast.InterfaceType:
		f.fields(t, of.Methods)
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr, *ast.StarExpr:
		t.embedded = append(t.embedded, name(of))
	}
}

func (f *source) fields(t *typ, list *ast.FieldList) {
	for _, field := range list.List {
		for _, n := range field.Names {
			t.members[n.Name], f.pkg.members[n.Name] = true, true
		}
		if len(field.Names) == 0 {
			embedded := name(field.Type)
			short := embedded[strings.LastIndex(embedded, ".")+1:]
			t.members[short], f.pkg.members[short] = true, true
			t.embedded = append(t.embedded, embedded)
		}
		if inner, ok := field.Type.(*ast.StructType); ok {
			f.fields(t, inner.Fields)
		}
	}
}

// name is that of a type, with its package if it is imported, and without stars and arguments.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return name(e.X) + "." + e.Sel.Name
	case *ast.StarExpr:
		return name(e.X)
	case *ast.IndexExpr:
		return name(e.X)
	case *ast.IndexListExpr:
		return name(e.X)
	}
	return "?"
}

func receiver(d *ast.FuncDecl) string { return name(d.Recv.List[0].Type) }

// has reports whether a type has a member, and whether that is known.
func (t *tree) has(of *typ, member string) (has, known bool) {
	if of.members[member] {
		return true, true
	}
	if of.file == nil {
		return false, false
	}
	known = true
	for _, embedded := range of.embedded {
		inner := t.lookup(of.file, embedded)
		if inner == nil || inner == of {
			known = false
			continue
		}
		found, sure := t.has(inner, member)
		if found {
			return true, true
		}
		known = known && sure
	}
	return false, known
}

// lookup is the type that a file means by a name; nil if it is none of this module.
func (t *tree) lookup(f *source, name string) *typ {
	in, short, dotted := strings.Cut(name, ".")
	if !dotted {
		return f.pkg.types[name]
	}
	if p := t.pkgs[f.imports[in]]; p != nil && f.imports[in] != "" {
		return p.types[short]
	}
	return nil
}
