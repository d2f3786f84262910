package status

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

//go:embed page
var pageFiles embed.FS

const policyBase = "default-src 'none'; img-src data:; base-uri 'none'; frame-ancestors 'none'; "

// pageTexts are what the page is answered with.
type pageTexts struct {
	style string
	html  string // one document: its style and its script stand in it, so that one answer is all of it
	// policy lets the page run exactly the one style and the one script that stand in it. It may reach nothing but the
	// server it came from, and cannot make HTML of texts.
	policy string
	// plainPolicy lets the plain table have its style, and ask for itself with a filter.
	plainPolicy string
}

// readPage reads the texts from the program's file on first use: most processes serve no page.
var readPage = sync.OnceValue(func() pageTexts {
	style, script := pageFile("page.css"), pageFile(
		"base.js", "model.js", "stream.js", "glance.js", "overview.js", "instances.js", "table.js", "timeline.js",
		"locks.js", "task.js", "change.js", "main.js",
	)
	script = strings.Replace(script, "{{verbs}}", verbsOfPage(), 1)
	return pageTexts{
		style: style,
		html:  strings.NewReplacer("{{style}}", style, "{{script}}", script).Replace(pageFile("page.html")),
		policy: policyBase + "connect-src 'self'; form-action 'none'; require-trusted-types-for 'script'; " +
			"trusted-types 'none'; style-src " + hashOf(style) + "; script-src " + hashOf(script),
		plainPolicy: policyBase + "form-action 'self'; style-src " + hashOf(style),
	}
})

// verbsOfPage describes the changes that the page offers, in the order of their buttons, as JSON for its script.
func verbsOfPage() string {
	type verb struct {
		Name          api.Verb            `json:"name"`
		Kind          record.OverrideKind `json:"kind"`
		Scopes        []record.Scope      `json:"scopes"`
		Role          string              `json:"role"`
		Effect        string              `json:"effect"`
		EffectOnGroup string              `json:"effectOnGroup,omitempty"`
		Strong        bool                `json:"strong,omitempty"`
		Target        bool                `json:"target,omitempty"` // it is told an instance
		Place         bool                `json:"place,omitempty"`  // or a pattern or a zone, strictly or not
		Only          []string            `json:"only,omitempty"`
		Never         []string            `json:"never,omitempty"`
		Ticks         bool                `json:"ticks,omitempty"`
		// Stands is whether an override of the kind has to stand, or must not; absent: either.
		Stands *bool `json:"stands,omitempty"`
	}
	rows := verbs.All()
	slices.SortFunc(rows, func(a, b verbs.Verb) int { return a.Page.Button - b.Page.Button })
	var list []verb
	for _, v := range rows {
		row := verb{
			Name: v.Name, Kind: v.Kind, Scopes: v.Scopes, Role: v.Role.String(), Effect: v.Page.Effect,
			EffectOnGroup: v.Page.EffectOnGroup, Strong: v.Page.Strong, Target: v.Target != verbs.NoTarget,
			Place: v.Target == verbs.ToPlace, Only: v.Page.Only, Never: v.Page.Never, Ticks: v.Page.Ticks,
		}
		if takesBack := v.TakesBack(); takesBack || v.Lasts() && !row.Target {
			row.Stands = &takesBack
		}
		list = append(list, row)
	}
	text, _ := json.Marshal(list) // of plain data
	return string(text)
}

// pageFile is the text of some files of the page, one after the other.
func pageFile(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		text, err := pageFiles.ReadFile("page/" + name)
		if err != nil { // what is embedded is there, or the tests fail
			continue
		}
		all.Write(text)
	}
	return all.String()
}

// hashOf is the source expression for a style or script of this text.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// page answers with the live page, or with the plain table for who has no JavaScript.
func (s *server) page(w http.ResponseWriter, r *http.Request) *web.Error {
	if r.URL.Query().Get("view") == "plain" {
		return s.plainPage(w, r)
	}
	w.Header().Set("Content-Security-Policy", readPage().policy)
	html := strings.Replace(readPage().html, "{{changes}}", string(accessOf(r.Context()).Changes), 1)
	return sendText(w, r, mediaHTML, html)
}

var plainTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("plain").Funcs(template.FuncMap{
		"states":  api.TaskStates,
		"runbook": snapshot.Runbook,
		"limit": func(n *int) string {
			if n == nil {
				return "no limit"
			}
			return strconv.Itoa(*n)
		},
		"path": func(t *api.Task) string {
			return "api/v1/tasks/" + url.PathEscape(t.Group) + "/" + url.PathEscape(t.Name)
		},
	}).Parse(pageFile("plain.html")))
})

// plainFilter is what the plain table leaves out tasks by; empty: nothing.
type plainFilter struct {
	Text  string
	State api.TaskState
}

// hasWords says whether the task has each word somewhere.
func hasWords(words []string, t *api.Task) bool {
	all := strings.ToLower(strings.Join([]string{t.Key, t.Kind, t.Instance, t.Reason, t.Message, t.LastError}, "\n"))
	return !slices.ContainsFunc(words, func(word string) bool {
		return !strings.Contains(all, word)
	})
}

// plainView is what the plain table is made of. Of problems, instances and tasks it has those of one page.
type plainView struct {
	Style     template.CSS
	Status    *api.Status
	Problems  []*api.Problem
	Instances []api.Instance
	Live      int // how many instances there are that have not left
	Tasks     []*api.Task
	Matching  int // how many tasks the filter leaves
	All       int // how many there are
	Filter    plainFilter
	Next      string // where the next page of tasks is; empty: this is the last one
}

// plainParams are the parameters of the plain table. Those of the live page may stand beside them.
var plainParams = []string{"q", "state"}

// plainPage answers with tables of a page of everything.
func (s *server) plainPage(w http.ResponseWriter, r *http.Request) *web.Error {
	values := url.Values{}
	for _, name := range slices.Concat(pageParams, plainParams) {
		if value := r.URL.Query().Get(name); value != "" {
			values.Set(name, value)
		}
	}
	q, bad := s.parsed(r, values, "/", plainParams, names(api.TaskStates()))
	if bad != nil {
		return bad
	}
	snapshot, bad := s.snapshot()
	if bad != nil {
		return bad
	}
	w.Header().Set("Content-Security-Policy", readPage().plainPolicy)
	return s.answers(r, &q).get(r, snapshot.Version, func(_ context.Context, b *body) *web.Error {
		filter := plainFilter{Text: values.Get("q"), State: api.TaskState(values.Get("state"))}
		return internal(plainTemplate().Execute(b.w, s.plainView(snapshot, &q, filter)))
	}).send(w, r, mediaHTML)
}

func (s *server) plainView(snapshot *snapshot.Cluster, q *query, filter plainFilter) *plainView {
	tasks := snapshot.Tasks.All()
	v := &plainView{
		Style:  template.CSS(readPage().style), //nolint:gosec // the style is embedded
		Status: &snapshot.Status, All: len(tasks), Filter: filter,
	}
	words := slices.Compact(slices.Sorted(strings.FieldsSeq(q.text)))
	for i := range tasks {
		t := shownTask(&tasks[i], q.hidden)
		if !q.inState(string(t.State)) || !hasWords(words, t) {
			continue
		}
		v.Matching++
		switch {
		case t.Key <= q.page.Key:
		case len(v.Tasks) < q.limit:
			v.Tasks = append(v.Tasks, t)
		case v.Next == "":
			v.Next = filter.address(q.limit, q.next(v.Tasks[q.limit-1].Key, s.now()))
		}
	}
	for i := range snapshot.Status.Problems[:min(len(snapshot.Status.Problems), q.limit)] {
		v.Problems = append(v.Problems, shownProblem(&snapshot.Status.Problems[i], q.hidden))
	}
	here := slices.DeleteFunc(
		slices.Clone(snapshot.Instances), func(i api.Instance) bool { return i.State == api.Left },
	)
	v.Live, v.Instances = len(here), here[:min(len(here), q.limit)]
	return v
}

// address is where the plain table goes on with the token.
func (f plainFilter) address(limit int, token string) string {
	return "?" + url.Values{
		"view": {"plain"}, "q": {f.Text}, "state": {string(f.State)}, "limit": {strconv.Itoa(limit)},
		"continue": {token},
	}.Encode()
}
