package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// workflow is what a test looks at of a workflow of GitHub Actions.
type workflow struct {
	Permissions any
	Defaults    struct{ Run struct{ Shell string } }
	Jobs        map[string]struct {
		Permissions map[string]string
		Steps       []struct {
			Uses, Run string
			With      map[string]any
		}
	}
}

var (
	pinned      = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	withVersion = regexp.MustCompile(`(?m)uses: +\S+ # v\d+\.\d+\.\d+$`)
	usesAction  = regexp.MustCompile(`(?m)uses: `)
	// ownCode is what runs code of this repository, or could.
	ownCode = regexp.MustCompile(`(?m)\b(make|go|npm|pip)\b|\./|helm/|test/|\.sh\b`)
)

// Workflows run actions that cannot change under their name, a failure within a pipe counts, and jobs may write nothing
// that they do not name. What may sign runs no code of this repository: code that builds could sign anything.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text := read(t, file)
		var w workflow
		if err := yaml.Unmarshal([]byte(text), &w); err != nil {
			t.Fatal(file, err)
		}
		if w.Defaults.Run.Shell != "bash" {
			t.Errorf("%s: defaults.run.shell is %q: want bash, which GitHub runs with pipefail", file, w.Defaults.Run.Shell)
		}
		if all, is := w.Permissions.(map[string]any); !is || len(all) > 1 || len(all) == 1 && all["contents"] != "read" {
			t.Errorf("%s: permissions of all jobs are %v: want none, or contents: read", file, w.Permissions)
		}
		if a, b := len(usesAction.FindAllString(text, -1)), len(withVersion.FindAllString(text, -1)); a != b {
			t.Errorf("%s: %d of %d actions have their version beside them, as # v1.2.3", file, b, a)
		}
		for name, job := range w.Jobs {
			signs := job.Permissions["id-token"] == "write"
			for _, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s: %s: %s is not pinned: want @ and the hash of a commit", file, name, step.Uses)
				}
				checkout := strings.HasPrefix(step.Uses, "actions/checkout@")
				if checkout && step.With["persist-credentials"] != false {
					t.Errorf("%s: %s: the checkout leaves the token: want persist-credentials: false", file, name)
				}
				if strings.Contains(step.Run, "${{ github.") {
					t.Errorf("%s: %s: a script holds ${{ github.… }}: want a variable of the environment", file, name)
				}
				if signs && (checkout || ownCode.MatchString(step.Run)) {
					t.Errorf("%s: %s may sign and runs code of this repository: %s%s", file, name, step.Uses, step.Run)
				}
			}
		}
	}
	release := read(t, filepath.Join(root, ".github/workflows/release.yaml"))
	if !slices.Contains(strings.Fields(release), "id-token:") {
		t.Error("no job of the release signs")
	}
}
