package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var keyRow = regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\|")

// Every line of the log has keys of the documented set and no others, and each of these is used. Messages are
// constant, and begin as sentences do.
func TestLogKeys(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "operations/tracing-and-logs.md"), "\n### Keys\n")
	documented := map[string]bool{}
	for _, row := range keyRow.FindAllStringSubmatch(table, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			documented[strings.Trim(name, "`")] = true
		}
	}
	if len(documented) < 20 {
		t.Fatalf("only %d keys are documented", len(documented))
	}
	// What every line, or every Error, has.
	used := map[string]bool{"error": true, "ts": true, "level": true, "msg": true, "logger": true, "stream": false}
	l := logLines{t: t, fset: token.NewFileSet(), used: used, known: documented}
	for _, dir := range []string{"cmd", "internal", "pkg"} {
		l.walk(filepath.Join(root, dir))
	}
	if l.lines < 80 {
		t.Errorf("only %d lines were found", l.lines)
	}
	for key := range documented {
		if !used[key] {
			t.Errorf("%s is documented, and no line has it", key)
		}
	}
}

// logLines looks for what is written to the log.
type logLines struct {
	t           *testing.T
	fset        *token.FileSet
	used, known map[string]bool
	lines       int
}

func (l *logLines) walk(dir string) {
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, "subscribetest") { // part of tests
			return err
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(l.fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if name := file.Name.Name; name != "cli" && filepath.Base(path) != "journal.go" { // the guard's passes lines on
			ast.Inspect(file, l.look)
		}
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *logLines) look(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		if method, ok := n.Fun.(*ast.SelectorExpr); ok {
			l.call(method, n.Args)
		}
	case *ast.CompositeLit: // the guard's notes
		if name, ok := n.Type.(*ast.Ident); ok && name.Name == "note" {
			l.lines++
			for _, field := range n.Elts {
				if kv, ok := field.(*ast.KeyValueExpr); ok && kv.Key.(*ast.Ident).Name == "values" {
					l.values(kv.Value)
				}
			}
		}
	case *ast.AssignStmt:
		if name, ok := n.Lhs[0].(*ast.Ident); ok && name.Name == "values" {
			l.values(n.Rhs[0])
		}
	}
	return true
}

// call looks at one that is Info, Error or WithValues of a logger, or names a field of zap's.
func (l *logLines) call(method *ast.SelectorExpr, args []ast.Expr) {
	switch method.Sel.Name {
	case "Info":
		if len(args) > 0 && !isPackage(method.X, "zap") && !isTasksLog(method.X) {
			l.message(args[0])
			l.keys(args[1:])
		}
	case "Error":
		if len(args) > 1 && !isPackage(method.X, "http") {
			l.message(args[1])
			l.keys(args[2:])
		}
	case "WithValues":
		l.keys(args)
	case "String":
		if isPackage(method.X, "zap") {
			l.key(args[0])
		}
	}
}

func isPackage(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

// isTasksLog says whether a logger is the one that passes on lines of tasks: their text is theirs.
func isTasksLog(x ast.Expr) bool {
	field, ok := x.(*ast.SelectorExpr)
	return ok && field.Sel.Name == "tasks"
}

func (l *logLines) message(arg ast.Expr) {
	l.lines++
	text, ok := literal(arg)
	if !ok || text == "" || strings.ToUpper(text[:1]) != text[:1] || strings.HasSuffix(text, ".") {
		l.t.Errorf("%s: a message must be constant, begin with a capital and end without a point",
			l.fset.Position(arg.Pos()))
	}
}

// literal is the text of a constant string, which may be in parts.
func literal(arg ast.Expr) (string, bool) {
	switch arg := arg.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(arg.Value)
		return text, err == nil && arg.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := literal(arg.X)
		right, also := literal(arg.Y)
		return left + right, ok && also
	default:
		return "", false
	}
}

// values looks at a []any of keys and values, or one that is appended to another.
func (l *logLines) values(x ast.Expr) {
	switch x := x.(type) {
	case *ast.CompositeLit:
		if _, ok := x.Type.(*ast.ArrayType); ok {
			l.keys(x.Elts)
		}
	case *ast.CallExpr:
		if isPackage(x.Fun, "append") {
			l.keys(x.Args[1:])
		}
	}
}

func (l *logLines) keys(args []ast.Expr) {
	for pair := range slices.Chunk(args, 2) {
		l.key(pair[0])
	}
}

func (l *logLines) key(arg ast.Expr) {
	key, ok := literal(arg)
	switch {
	case !ok:
		l.t.Errorf("%s: a key must be constant", l.fset.Position(arg.Pos()))
	case !l.known[key]:
		l.t.Errorf("%s: the key %s is not documented", l.fset.Position(arg.Pos()), key)
	}
	l.used[key] = true
}
