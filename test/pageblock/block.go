// Package pageblock reads the fenced blocks of the project's pages: the commands that they show, and what these print.
// Tests run them and hold what comes to what the page shows.
package pageblock

import (
	"regexp"
	"strings"
)

// Block is a fenced block of a page, with the directive that stands in a comment right before it:
//
//	<!-- run -->                 the commands are run, one after the other with those of the page's other blocks
//	<!-- run until: TEXT -->     the last command runs until it prints TEXT; then it gets Ctrl-C and has to end well
//	<!-- file: NAME -->          the block is the content of that file in the directory where the commands run
//	<!-- program: DIR/NAME -->   the block is a file of a service, whose processes run in a directory of their own
//	<!-- three: DIR -->          the commands of that service; the last one starts one of its three processes
//	<!-- same: PATH -->          the block is what stands in that file of the repository, or a part of it; a line …
//	                             leaves lines out
//	<!-- shown: NAME -->         an end-to-end scenario runs the commands in the state that the page speaks of
//	<!-- needs: WHAT -->         the commands need what a test does not have; they are parsed, and their files and
//	                             flags checked
type Block struct {
	Page, Language, Directive, Text string
	Line                            int // of the page, from 1
}

var fenced = regexp.MustCompile(
	"(?ms)^(?:<!-- (run|(?:run until|file|program|three|same|shown|needs): [^\n]*?) -->\n)?```([a-z]*)\n(.*?)^```$",
)

// Blocks are all fenced blocks of a page, whose name is for messages.
func Blocks(page, text string) []Block {
	var all []Block
	for _, at := range fenced.FindAllStringSubmatchIndex(text, -1) {
		directive := ""
		if at[2] >= 0 {
			directive = text[at[2]:at[3]]
		}
		all = append(all, Block{
			Page: page, Directive: directive, Language: text[at[4]:at[5]], Text: text[at[6]:at[7]],
			Line: 1 + strings.Count(text[:at[0]], "\n"),
		})
	}
	return all
}

// Command is one command that a page shows, and for a console what it prints.
type Command struct{ Text, Output string }

// Commands are those of a block of shell: lines of sh, or what follows the prompt of a console.
func (b Block) Commands() []Command {
	var all []Command
	for line := range strings.Lines(b.Text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case b.Language == "console" && strings.HasPrefix(line, "$ "):
			all = append(all, Command{Text: line[2:]})
		case len(all) > 0 && strings.HasSuffix(all[len(all)-1].Text, "\\"):
			last := &all[len(all)-1]
			last.Text = strings.TrimSuffix(last.Text, "\\") + strings.TrimLeft(line, " ")
		case b.Language == "console":
			if len(all) > 0 {
				all[len(all)-1].Output += line + "\n"
			}
		case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#"):
			all = append(all, Command{Text: line})
		}
	}
	return all
}

// Shell says whether it has commands.
func (b Block) Shell() bool { return b.Language == "sh" || b.Language == "console" }

// Pattern matches what a command prints that a page shows: … stands for anything in a line, or for any lines where it
// is all of one. How many blanks there are does not count.
func Pattern(shown string) *regexp.Regexp {
	var pattern strings.Builder
	pattern.WriteString(`(?s)^`)
	for line := range strings.Lines(shown) {
		line = strings.TrimRight(line, "\n")
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		quoted := blanks.ReplaceAllString(regexp.QuoteMeta(line), `[ \t]+`)
		pattern.WriteString(strings.ReplaceAll(quoted, "…", `[^\n]*?`) + `[ \t]*\n`)
	}
	pattern.WriteString(`\s*$`)
	return regexp.MustCompile(pattern.String())
}

var blanks = regexp.MustCompile(`(\\ |\s)+`)

// Words splits a command as a shell does, without replacing anything. Operators are words of their own, comments are
// left out.
func Words(text string) []string {
	var all []string
	var word strings.Builder
	begun, quote := false, rune(0)
	end := func() {
		if begun {
			all = append(all, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			end()
		case r == '#' && !begun:
			return all
		case strings.ContainsRune("|;&", r):
			end()
			all = append(all, string(r))
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return all
}
