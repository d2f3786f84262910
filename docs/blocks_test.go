package docs_test

import (
	"regexp"
	"strings"
)

// A fence is a fenced block of a page, with the directive that stands in a comment right before it:
//
//	<!-- run -->                 the commands are run, one after the other with those of the page's other blocks
//	<!-- run until: TEXT -->     the last command runs until it prints TEXT; then it gets Ctrl-C and has to end well
//	<!-- file: NAME -->          the block is the content of that file in the directory where the commands run
//	<!-- same: PATH -->          the block is what stands in that file of the repository, or a part of it
//	<!-- needs: WHAT -->         the commands need what a test does not have; they are parsed, and their files and
//	                             flags checked
type fence struct {
	page, language, directive, text string
	line                            int
}

var fenceOf = regexp.MustCompile(
	"(?ms)^(?:<!-- (run until: [^\n]*?|run|file: [^\n]*?|same: [^\n]*?|needs: [^\n]*?) -->\n)?```([a-z]*)\n(.*?)^```$",
)

// fences are all fenced blocks of a page.
func fences(page, text string) []fence {
	var all []fence
	for _, at := range fenceOf.FindAllStringSubmatchIndex(text, -1) {
		directive := ""
		if at[2] >= 0 {
			directive = text[at[2]:at[3]]
		}
		all = append(all, fence{
			page: page, directive: directive, language: text[at[4]:at[5]], text: text[at[6]:at[7]],
			line: 1 + strings.Count(text[:at[0]], "\n"),
		})
	}
	return all
}

// command is one command that a page shows, and for a console what it prints.
type command struct{ text, output string }

// commands are those of a block of shell: lines of sh, or what follows the prompt of a console.
func (f fence) commands() []command {
	var all []command
	for line := range strings.Lines(f.text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case f.language == "console" && strings.HasPrefix(line, "$ "):
			all = append(all, command{text: line[2:]})
		case len(all) > 0 && strings.HasSuffix(all[len(all)-1].text, "\\"):
			last := &all[len(all)-1]
			last.text = strings.TrimSuffix(last.text, "\\") + strings.TrimLeft(line, " ")
		case f.language == "console":
			if len(all) > 0 {
				all[len(all)-1].output += line + "\n"
			}
		case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#"):
			all = append(all, command{text: line})
		}
	}
	return all
}

func (f fence) shell() bool { return f.language == "sh" || f.language == "console" }

// words splits a command as a shell does, without replacing anything. Operators are words of their own, comments are
// left out.
func words(text string) []string {
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

// simple splits the words of a line into simple commands: what stands between pipes, && and semicolons.
func simple(all []string) [][]string {
	var lines [][]string
	var now []string
	for _, w := range append(all, ";") {
		if w == "|" || w == ";" || w == "&" {
			if len(now) > 0 {
				lines = append(lines, now)
			}
			now = nil
			continue
		}
		now = append(now, w)
	}
	return lines
}
