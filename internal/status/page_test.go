package status

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// between is the text after the first opening and before the next closing.
func between(text, opening, closing string) string {
	_, rest, _ := strings.Cut(text, opening)
	inner, _, _ := strings.Cut(rest, closing)
	return inner
}

func TestPagesRunOnlyThemselves(t *testing.T) {
	h := New(Config{Source: boardWith(sample(1))})
	live, plain := get(t, h, "/"), get(t, h, "/?view=plain")
	for what, w := range map[string]*httptest.ResponseRecorder{"live": live, "plain": plain} {
		policy, body := w.Header().Get("Content-Security-Policy"), w.Body.String()
		want := []string{
			"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'",
			"style-src " + hashOf(between(body, "<style>", "</style>")),
		}
		if what == "live" {
			want = append(want, "connect-src 'self'", "form-action 'none'", "require-trusted-types-for 'script'",
				"script-src "+hashOf(between(body, "<script>", "</script>")))
		} else if strings.Contains(body, "<script") || strings.Contains(policy, "script-src") {
			t.Error("the plain page has a script")
		}
		for _, part := range want {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: %s is not in %s", what, part, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: %s", what, policy)
		}
		for _, never := range []string{
			"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", " onclick", ` style="`, "eval(",
			"@import",
			"url(", " src=",
		} {
			if strings.Contains(body, never) {
				t.Errorf("%s: the page holds %q, which its policy forbids or should", what, never)
			}
		}
		// The only addresses of others are links to what to do about a problem.
		if others := strings.Count(strings.ReplaceAll(body, snapshot.Runbook(""), ""), "://"); others > 0 {
			t.Errorf("%s: %d addresses of others", what, others)
		}
		for _, name := range []string{"X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy"} {
			if w.Header().Get(name) == "" {
				t.Errorf("%s: %s is missing", what, name)
			}
		}
		if strings.Contains(body, "{{") {
			t.Errorf("%s: a part is missing: …%s", what, between(body, "{{", "}}"))
		}
	}
}

// What the script looks for by id is in the document, once.
func TestScriptFindsItsElements(t *testing.T) {
	html := pageFile("page.html")
	found := regexp.MustCompile(`byId\("([^"]+)"\)`).FindAllStringSubmatch(readPage().html, -1)
	if len(found) < 50 {
		t.Errorf("only %d look-ups were found", len(found))
	}
	for _, m := range found {
		if n := strings.Count(html, ` id="`+m[1]+`"`); n != 1 {
			t.Errorf("%s is in the page %d times", m[1], n)
		}
	}
}

// The page knows the states there are, and each problem has a section to link to.
func TestPageKnowsTheWords(t *testing.T) {
	states := between(readPage().html, "const STATES = [", "]")
	if want := `"` + strings.Join(names(api.TaskStates()), `", "`) + `"`; states != want {
		t.Errorf("states %s, want %s", states, want)
	}
	if got := between(readPage().html, `const RUNBOOKS = "`, `"`); got != snapshot.Runbook("") {
		t.Errorf("the script links to %s, the plain page to %s", got, snapshot.Runbook(""))
	}
	text, err := os.ReadFile("../../docs/operations/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n")
	for _, reason := range api.ProblemReasons() {
		if !slices.Contains(sections, "## "+reason) {
			t.Errorf("docs/operations/problems.md has no section %s", reason)
		}
	}
}

// The pages of the plain table have all there is, and none of them has more than a page of the API's lists.
func TestPlainPagesHaveEverything(t *testing.T) {
	const n = 1203
	s := sample(n)
	s.Instances = append(s.Instances, api.Instance{Name: "gone-in-order", State: api.Left})
	for i := range n {
		s.Status.Problems = append(s.Status.Problems, api.Problem{Reason: api.ProblemTaskFailing, Task: s.Tasks.All()[i].Key})
		s.Instances = append(s.Instances, api.Instance{Name: fmt.Sprintf("more-%d", i), State: api.Live})
	}
	s.Sort()
	h := New(Config{Source: boardWith(s)})
	var keys []string
	path := "/?view=plain"
	for range 3 {
		body := get(t, h, path).Body.String()
		if rows := strings.Count(body, "<tr><th scope=\"row\">"); rows > 2*api.DefaultLimit+1 {
			t.Fatalf("%s: %d rows of groups, instances and tasks", path, rows)
		}
		if n := strings.Count(body, `"><a href="https://`); n > api.DefaultLimit {
			t.Errorf("%s: %d problems", path, n)
		}
		for _, m := range regexp.MustCompile(`<a href="api/v1/tasks/[^"]+">([^<]+)</a>`).FindAllStringSubmatch(body,
			-1) {
			keys = append(keys, m[1])
		}
		for _, want := range []string{
			"Tasks (1203)", "Problems (1204)", "no instance has free capacity", snapshot.Runbook("") + "nocapacity",
			`<th scope="row">c</th>`, "topics 401 of 20", "These are the first 500 of 1206.",
			"These are the first 500.",
		} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %q is not there", path, want)
			}
		}
		if strings.Contains(body, "gone-in-order") {
			t.Error("an instance that left is shown")
		}
		path = "/" + html.UnescapeString(between(body, `<p><a href="`, `">next page</a>`))
	}
	if len(keys) != n || !slices.IsSorted(keys) || keys[0] != s.Tasks.All()[0].Key || path != "/" {
		t.Errorf("%d of %d tasks, then %s", len(keys), n, path)
	}
	if live := get(t, h, "/").Body.String(); !strings.Contains(
		live, `<noscript><meta http-equiv="refresh" content="0; url=?view=plain"></noscript>`) {
		t.Error("the live page does not lead to it")
	}
}

func TestPlainPageFilters(t *testing.T) {
	h := New(Config{Source: boardWith(sample(20))})
	for query, want := range map[string]string{
		"&q=0007": "(1 of 20)", "&q=TOPICS+created": "(19 of 20)", "&state=unassigned": "(1 of 20)",
		"&q=none+such":         "(0 of 20)",
		"&q=0007&state=failed": "(0 of 20)", "": "(20)",
	} {
		if body := get(t, h, "/?view=plain"+query).Body.String(); !strings.Contains(body, "Tasks "+want) {
			t.Errorf("%s: %s, want %s", query, between(body, "<h2>Tasks ", "</h2>"), want)
		}
	}
}

// The page says since when what it shows may be out of date, and why; and when nothing was read yet.
func TestPlainPageSaysThatItIsStale(t *testing.T) {
	fresh, stale, never := sample(2), sample(2), sample(2)
	stale.Status.Stale, stale.Status.Store.Error = true, "no reachable servers"
	never.Status.Stale, never.Status.ObservedAt = true, api.Time{}
	for want, s := range map[string]*snapshot.Cluster{
		"": fresh,
		"The store has not answered since 2026-01-02T03:04:05.000Z: what is shown may be out of date, but not what " +
			"this replica itself runs. no reachable servers": stale,
		"The store has not been read yet: nothing is known for sure.": never,
	} {
		body := get(t, New(Config{Source: boardWith(s)}), "/?view=plain").Body.String()
		if got := strings.TrimSpace(between(body, `<p id="alert">`, "</p>")); got != want {
			t.Errorf("says %q, want %q", got, want)
		}
	}
}

func TestPlainPageEscapes(t *testing.T) {
	const hostile = `"><script>alert(1)</script><a href="javascript:alert(2)`
	s := sample(2)
	s.Status.Cluster, s.Status.Store.Error, s.Status.Stale = hostile, hostile, true
	s.Status.Problems[0].Message, s.Status.Problems[0].Reason = hostile, hostile
	s.Instances[0].Name, s.Instances[0].Zone, s.Instances[0].Message = hostile, hostile, hostile
	s.Instances[0].Owned = api.Counts{hostile: 1}
	s.Tasks.All()[0].Name, s.Tasks.All()[0].Group, s.Tasks.All()[0].Key = hostile, hostile, hostile+"/"+hostile
	s.Tasks.All()[0].LastError = hostile
	s.Tasks.All()[0].Overrides = api.Overrides{{Kind: "pause", Reason: hostile, By: hostile, To: hostile}}
	s.Sort()
	w := get(t, New(Config{Source: boardWith(s)}), "/?view=plain&q=%22%3E%3Cscript%3E")
	body := w.Body.String()
	raw := strings.Contains(body, "<script") || strings.Contains(body, `"javascript:`)
	if w.Code != http.StatusOK || raw || !strings.Contains(body, "&lt;script&gt;alert(1)") {
		t.Errorf("%d %s", w.Code, body)
	}
}

func TestPlainPageBeforeTheFirstSnapshot(t *testing.T) {
	h := New(Config{Source: &snapshot.Board{}})
	w := get(t, h, "/?view=plain")
	kind := w.Header().Get("Content-Type")
	if w.Code != http.StatusServiceUnavailable || kind != "application/problem+json" {
		t.Errorf("%d %s", w.Code, kind)
	}
	if w := get(t, h, "/"); w.Code != http.StatusOK {
		t.Errorf("the live page: %d", w.Code)
	}
}

func TestPageKnowsItsListener(t *testing.T) {
	h := New(Config{Source: boardWith(sample(1))})
	for takes, handler := range map[Changes]http.Handler{
		ChangesNone: h, ChangesOpen: granting(h, Access{Changes: ChangesOpen}),
		ChangesToken: granting(h, Access{Changes: ChangesToken}),
	} {
		if body := get(t, handler, "/").Body.String(); between(body, `data-changes="`, `"`) != string(takes) {
			t.Errorf("the page says %q, want %q", between(body, `data-changes="`, `"`), takes)
		}
	}
}
