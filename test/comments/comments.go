package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Hit is a name in a comment that the code does not have.
type Hit struct {
	File string
	Line int
	Text string
}

func (h Hit) String() string { return fmt.Sprintf("%s:%d: %s", h.File, h.Line, h.Text) }

// check returns the hits of all packages, in order.
func (t *tree) check() []Hit {
	var hits []Hit
	for _, p := range t.pkgs {
		for _, f := range p.files {
			hits = append(hits, t.checkFile(f)...)
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(hits)
}

// place is a comment and what it stands at.
type place struct {
	file  *source
	group *ast.CommentGroup
	decl  ast.Node        // nil: the package
	typ   *typ            // the type, or that of the receiver; nil: none
	local map[string]bool // names within the declaration
}

func (t *tree) checkFile(f *source) []Hit {
	var hits []Hit
	for _, g := range f.syntax.Comments {
		at := place{file: f, group: g, local: map[string]bool{}}
		for _, d := range f.syntax.Decls {
			if g.Pos() <= d.End() && (g.Pos() >= d.Pos() || g == docOf(d)) {
				at.stand(d)
			}
		}
		report := func(word, text string) {
			hits = append(hits, Hit{f.path, t.line(g, word), text})
		}
		t.checkText(&at, report)
	}
	return hits
}

func docOf(d ast.Decl) *ast.CommentGroup {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

// stand notes the declaration, or the part of it, that the comment is at.
func (at *place) stand(d ast.Decl) {
	at.decl = d
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			at.typ = at.file.pkg.types[receiver(d)]
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			s, ok := spec.(*ast.TypeSpec)
			if ok && (len(d.Specs) == 1 || s.Doc == at.group || s.Pos() <= at.group.Pos() && at.group.Pos() <= s.End()) {
				at.typ, at.decl = at.file.pkg.types[s.Name.Name], s
			}
		}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		if ident, ok := n.(*ast.Ident); ok {
			at.local[ident.Name] = true
		}
		return true
	})
}

// line is where a word stands in a comment.
func (t *tree) line(g *ast.CommentGroup, word string) int {
	for _, c := range g.List {
		for i, text := range strings.Split(c.Text, "\n") {
			if regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(text) {
				return t.files.Position(c.Pos()).Line + i
			}
		}
	}
	return t.files.Position(g.Pos()).Line
}

var (
	words  = regexp.MustCompile("\"[^\"]*\"|`[^`]*`|[A-Za-z_][A-Za-z0-9_]*(?:\\.[A-Za-z_][A-Za-z0-9_]*)*")
	starts = regexp.MustCompile(`(?:^|[.:!?;…]["')\]]*\s+|[(–]\s*)$`)
)

// checkText goes through what is prose: no headings, no code, no directives.
func (t *tree) checkText(at *place, report func(word, text string)) {
	if strings.HasPrefix(at.group.List[0].Text, "//go:") {
		return
	}
	t.checkFirst(at, report)
	links := comment.Parser{LookupSym: func(string, string) bool { return true }}
	doc := links.Parse(at.group.Text())
	for _, block := range doc.Content {
		switch block := block.(type) {
		case *comment.Paragraph:
			t.checkProse(at, block.Text, report)
		case *comment.List:
			for _, item := range block.Items {
				for _, inner := range item.Content {
					if p, ok := inner.(*comment.Paragraph); ok {
						t.checkProse(at, p.Text, report)
					}
				}
			}
		}
	}
}

func (t *tree) checkProse(at *place, texts []comment.Text, report func(word, text string)) {
	before := ""
	for _, text := range texts {
		switch text := text.(type) {
		case comment.Plain:
			for _, span := range words.FindAllStringIndex(string(text), -1) {
				word := string(text)[span[0]:span[1]]
				first := starts.MatchString(before + string(text)[:span[0]])
				switch {
				case word[0] == '"' || word[0] == '`' || hyphened(string(text), span):
				case strings.Contains(word, "."):
					t.checkDotted(at, word, report)
				case !first && unicode.IsUpper(rune(word[0])):
					t.checkWord(at, word, report)
				}
			}
			before += string(text)
		case *comment.DocLink:
			if text.Recv != "" && text.ImportPath == "" {
				t.checkDotted(at, text.Recv+"."+text.Name, report)
			}
			before += "x"
		default:
			before += "x"
		}
	}
}

// hyphened reports whether a word is a part of one with hyphens, such as the name of a header.
func hyphened(text string, span []int) bool {
	return span[0] > 0 && text[span[0]-1] == '-' || span[1] < len(text) && text[span[1]] == '-'
}

// lower is a word with a small first letter.
func lower(word string) string { return strings.ToLower(word[:1]) + word[1:] }

// checkWord is for a word with a capital within a sentence, which may be the old name of what is no longer exported.
func (t *tree) checkWord(at *place, word string, report func(word, text string)) {
	p := at.file.pkg
	small := lower(word)
	if word == strings.ToUpper(word) || products[word] || at.local[word] || p.scope[word] || p.members[word] ||
		t.imported(at.file, word) {
		return
	}
	if at.typ != nil && at.typ.members[small] {
		if has, known := t.has(at.typ, word); !has && known {
			report(word, fmt.Sprintf("%s: no such member of the type; %s is", word, small))
		}
		return
	}
	if !p.used[word] && (p.scope[small] || p.members[small]) {
		report(word, fmt.Sprintf("%s: no such name here; %s is", word, small))
	}
}

// imported reports whether an import from this module declares a name.
func (t *tree) imported(f *source, name string) bool {
	for _, dir := range f.imports {
		if p := t.pkgs[dir]; dir != "" && p != nil && (p.scope[name] || p.members[name]) {
			return true
		}
	}
	return false
}

// endings are those of files, which a dot is in front of as well.
var endings = map[string]bool{
	"conf": true, "go": true, "html": true, "js": true, "json": true, "md": true, "py": true, "sh": true, "sql": true,
	"txt": true, "yaml": true,
}

// checkDotted is for a member of a type, or a name of a package.
func (t *tree) checkDotted(at *place, word string, report func(word, text string)) {
	of, member, _ := strings.Cut(word, ".")
	dir, isImport := at.file.imports[of]
	capitals := unicode.IsUpper(rune(of[0])) && unicode.IsUpper(rune(member[0]))
	switch {
	case strings.Contains(member, "."), of == strings.ToUpper(of), endings[member]:
		return
	case unicode.IsLower(rune(of[0])) && unicode.IsLower(rune(member[0])): // a path, as of the configuration
		return
	case at.local[of] && !isImport && at.file.pkg.types[of] == nil: // a variable
		return
	}
	if inner := at.file.pkg.types[of]; inner != nil {
		if has, known := t.has(inner, member); !has && known && inner.file != nil {
			report(word, fmt.Sprintf("%s: %s has no %s", word, of, member))
		}
		return
	}
	if p := t.pkgs[dir]; isImport && dir != "" && p != nil {
		if !p.scope[member] {
			report(word, fmt.Sprintf("%s: package %s has no %s", word, of, member))
		}
		return
	}
	if capitals && !isImport && !at.file.pkg.scope[of] && !t.typeSomewhere(of) {
		report(word, fmt.Sprintf("%s: there is no type %s", word, of))
	}
}

// typeSomewhere reports whether any package of the module has a type of that name.
func (t *tree) typeSomewhere(name string) bool {
	for _, p := range t.pkgs {
		if p.types[name] != nil {
			return true
		}
	}
	return false
}

// checkFirst is for documentation that begins with what the name once was.
func (t *tree) checkFirst(at *place, report func(word, text string)) {
	declared := ""
	switch d := at.decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == at.group {
			declared = d.Name.Name
		}
	case *ast.TypeSpec:
		if d.Doc == at.group || at.group.End() < d.Pos() {
			declared = d.Name.Name
		}
	}
	first := words.FindString(at.group.Text())
	if declared == "" || first == "" || first == declared || !unicode.IsLower(rune(first[0])) ||
		!strings.HasPrefix(at.group.Text(), first) {
		return
	}
	if strings.EqualFold(first, declared) || strings.HasSuffix(strings.ToLower(declared), first) {
		report(first, fmt.Sprintf("%s: the name is %s", first, declared))
	}
}
