package program

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test -run ^TestCommandsPage$ . -commands-page.update

const commandsPage = "../../docs/commands.md"

var updateCommandsPage = flag.Bool("commands-page.update", false, "write docs/commands.md instead of comparing it")

// The page of the commands is written from the commands themselves.
func TestCommandsPage(t *testing.T) {
	root := rootCommand()
	root.InitDefaultCompletionCmd()
	want := renderCommands(root)
	if *updateCommandsPage {
		if err := os.WriteFile(commandsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/commands.md differs from the commands; run: go generate ./internal/program")
	}
}

const commandsIntro = `# Commands

<!-- Written from the program: go generate ./internal/program -->

` + "`status`, `get`, `describe`, `logs`, `wait` and the commands that change something ask a replica, by default here:" + `
` + "`--server` or `SHARDCTL_SERVER`" + ` names the admin listener of another one. Every replica answers for the whole cluster, and
takes changes for all of it. Without a replica, ` + "`--config`" + ` has them go to the store itself; ` + "`logs`" + ` and watches need a replica.
Exit codes are in [install](operations/install.md#exit-codes).

While the store is away a replica answers with what it saw last. Every command that reads obeys one rule then, that of
` + "`--stale`" + `. With ` + "`warn`" + ` it shows the answer, and a line on standard error says since when it may be out of date, and why.
With ` + "`fail`" + ` it does the same and ends with code 3. ` + "`wait`" + ` never takes such an answer: it waits on, and ends with code 3
when its time is over.

| command | what it does |
|---|---|
`

func renderCommands(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(commandsIntro)
	commands := leaves(root)
	for _, cmd := range commands {
		fmt.Fprintf(
			&b, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short,
		)
	}
	for _, cmd := range commands {
		renderCommand(&b, cmd)
	}
	return b.String()
}

// leaves are the commands that do something, in the order of their help.
func leaves(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range cmd.Commands() {
		switch {
		case sub.Hidden || sub.Name() == "help":
		case sub.Name() == "completion": // one entry for all shells
			all = append(all, sub)
		case sub.HasSubCommands():
			all = append(all, leaves(sub)...)
		default:
			all = append(all, sub)
		}
	}
	return all
}

func renderCommand(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n```text\n%s\n```\n\n", cmd.CommandPath(), commandUse(cmd))
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	b.WriteString(prose(text))
	if cmd.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", dedent(cmd.Example))
	}
	var rows strings.Builder
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden {
			fmt.Fprintf(
				&rows, "| %s | %s | %s |\n", flagName(f), flagDefault(f), strings.ReplaceAll(f.Usage, "|", "\\|"),
			)
		}
	})
	if rows.Len() > 0 {
		fmt.Fprintf(b, "\n| flag | default | meaning |\n|---|---|---|\n%s", rows.String())
	}
}

func commandUse(cmd *cobra.Command) string {
	if !cmd.HasSubCommands() {
		return cmd.UseLine()
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return cmd.CommandPath() + " " + strings.Join(names, "|")
}

// prose is a help text as Markdown: lines of a paragraph are joined, and what is set in by blanks stays as it is.
func prose(text string) string {
	var parts []string
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		switch {
		case strings.HasPrefix(part, " ") || strings.HasPrefix(part, "\t"):
			parts = append(parts, "```text\n"+dedent(part)+"\n```")
		default:
			parts = append(parts, strings.ReplaceAll(part, "\n", " "))
		}
	}
	return strings.Join(parts, "\n\n") + "\n"
}

func dedent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimPrefix(lines[i], "\t"), "  ")
	}
	return strings.Join(lines, "\n")
}

func flagName(f *pflag.Flag) string {
	name := "`--" + f.Name + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	return name
}

func flagDefault(f *pflag.Flag) string {
	if f.DefValue == "" || f.DefValue == "[]" || f.DefValue == "false" {
		return ""
	}
	return "`" + f.DefValue + "`"
}
