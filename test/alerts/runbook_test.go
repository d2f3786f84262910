package alerts

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const runbook = "../../docs/operations/alerts.md"

var heading = regexp.MustCompile(`^#{1,6} +(.*?) *$`)

// sections are the texts below each heading, by the anchor that GitHub gives it.
func sections(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	found, at, code := map[string]string{}, "", false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if m := heading.FindStringSubmatch(line); m != nil && !code {
			at = anchor(m[1])
			if _, twice := found[at]; twice {
				t.Errorf("two headings have the anchor #%s", at)
			}
			found[at] = ""
			continue
		}
		found[at] += line + "\n"
	}
	return found
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor is what GitHub makes of a heading.
func anchor(title string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

func TestEveryAlertHasARunbook(t *testing.T) {
	found := sections(t)
	var names []string
	for _, a := range readAlerts(t) {
		names = append(names, anchor(a.Alert))
		text, ok := found[strings.ToLower(a.Alert)]
		if !ok {
			t.Errorf("docs/operations/alerts.md has no section %s", a.Alert)
			continue
		}
		for _, part := range []string{"**Means:**", "**Users:**", "**Look:**", "**Do:**"} {
			if !strings.Contains(text, part) {
				t.Errorf("the section %s does not say %s", a.Alert, part)
			}
		}
		if !strings.Contains(text, a.Severity) || !strings.Contains(text, a.For) {
			t.Errorf("the section %s does not say %s, after %s", a.Alert, a.Severity, a.For)
		}
	}
	for name := range found {
		if strings.HasPrefix(name, "shardctl") && !slices.Contains(names, name) {
			t.Errorf("the section #%s is of no alert", name)
		}
	}
}

// An alert on several problems says in its section which they are, and links each.
func TestRunbooksNameTheReasonsOfTheirAlert(t *testing.T) {
	found := sections(t)
	reasons := regexp.MustCompile(`reason=~?"([^"]+)"`)
	for _, a := range readAlerts(t) {
		expr, _, _ := strings.Cut(a.Expr, "unless") // after which come views that do not count
		for _, m := range reasons.FindAllStringSubmatch(expr, -1) {
			for reason := range strings.SplitSeq(m[1], "|") {
				if link := "](problems.md#" + strings.ToLower(reason) + ")"; !strings.Contains(found[strings.ToLower(a.Alert)], link) {
					t.Errorf("the section %s does not link %s", a.Alert, reason)
				}
			}
		}
	}
}

var queryInDocs = regexp.MustCompile("(?s)```promql\n(.*?)```")

func TestQueriesOfRunbooksNameWhatIsThere(t *testing.T) {
	there := whatIsExposed(t)
	b, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, block := range mentioned(queryInDocs, string(b)) {
		for query := range strings.Lines(block) {
			queries++
			for _, wrong := range there.check(query) {
				t.Errorf("%s: %s", strings.TrimSpace(query), wrong)
			}
		}
	}
	if queries == 0 {
		t.Error("there are none")
	}
}

func TestAnchorsAreGitHubs(t *testing.T) {
	for title, want := range map[string]string{
		"ShardctlNoHeadroom": "shardctlnoheadroom",
		"Backup and restore": "backup-and-restore",
		"MongoDB: roles":     "mongodb-roles",
		"`run`, a-b_c (d)":   "run-a-b_c-d",
	} {
		if got := anchor(title); got != want {
			t.Errorf("%s: %s, want %s", title, got, want)
		}
	}
}
