package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/kinds"
	exectask "github.com/shardctl/shardctl/internal/runners/exec"
	"github.com/shardctl/shardctl/pkg/tasks"
)

func TestSamples(t *testing.T) {
	counts := map[string]int{
		"topics.yaml": 100, "webhooks.yaml": 4, "schedules.yaml": 4, "jobs.yaml": 11, "full.yaml": 18,
	}
	for _, source := range kinds.Sources() {
		counts["topics-"+source.Name()+".yaml"] = 100
	}
	files, err := filepath.Glob("../../config/*.yaml")
	if err != nil || len(files) != len(counts) {
		t.Fatalf("%v, %v: want %d samples", files, err, len(counts))
	}
	none := func(string) (string, bool) { return "", false }
	for _, file := range files {
		s, err := Load([]string{file}, Options{Env: none, Kinds: kinds.All(), Listers: kinds.Listers()})
		if err != nil {
			t.Errorf("%s:\n%v", file, err)
			continue
		}
		if want := counts[filepath.Base(file)]; s.Tasks() != want {
			t.Errorf("%s has %d tasks, want %d", file, s.Tasks(), want)
		}
		if s.Store.URI != "sqlite:shardctl.db" {
			t.Errorf("%s: store %s", file, s.Store.URI)
		}
		for _, g := range s.Groups {
			for _, task := range g.Tasks {
				runs, ok := task.Runner.(exectask.Runner)
				if !ok {
					continue
				}
				if _, err := exec.LookPath(runs.Command[0]); err != nil {
					t.Errorf("%s: task %s runs what not every machine has: %v", file, task.Name, err)
				}
			}
		}
		if g := s.Groups[0]; filepath.Base(file) == "topics.yaml" &&
			(*g.Cap != 20 || g.Tasks[0].Name != "topic-001" || g.Tasks[99].Name != "topic-100") {
			t.Errorf("topics.yaml: got %+v", g)
		}
	}
}

// TestFullSampleHasEveryField holds full.yaml to the schema, less subscriptions: what is added to one is added to the
// other. Subscriptions need a broker, and every sample must run: each kind has a sample of its own.
func TestFullSampleHasEveryField(t *testing.T) {
	content, err := os.ReadFile("../../config/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := &decode.Problems{}
	root := parse("full.yaml", content, compiled(work, listerKinds), p)
	if len(p.Errs) > 0 {
		t.Fatal(p.Errs)
	}
	shown := map[*jsonschema.Schema]map[string]bool{}
	fieldsIn(root, shown)
	// In defaults and template not every field of a task is shown again, and notify is the alternative to delay. A
	// callback is shown as a comment, since every sample must run.
	elsewhere := slices.Concat(work.Names(), listerKinds.Names(), []string{"notify"})
	for _, f := range kind.FieldsOf(&tasks.Task{}, nil, nil) {
		elsewhere = append(elsewhere, f.Name)
	}
	for schema, names := range shown {
		_, isTask := schema.Properties["name"]
		for name := range schema.Properties {
			if name != "callback" && !names[name] && (isTask || !slices.Contains(elsewhere, name)) {
				t.Errorf("full.yaml does not show %s of %s", name, schema.Location)
			}
		}
	}
}

// Every source has a sample that subscribes with it.
func TestSampleForEverySource(t *testing.T) {
	for _, source := range kinds.Sources() {
		path := "../../config/topics-" + source.Name() + ".yaml"
		env := func(name string) (string, bool) { return "", false }
		s, err := Load([]string{path}, Options{Env: env, Kinds: kinds.All(), Listers: kinds.Listers()})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := s.Groups[0].Tasks[0].Kind(); got != source.Name() {
			t.Errorf("%s has a task of kind %s", path, got)
		}
	}
}

// fieldsIn notes for each schema of a mapping which of its fields stand somewhere in n.
func fieldsIn(n *decode.Node, shown map[*jsonschema.Schema]map[string]bool) {
	if n.Shape == decode.Mapping && len(schemaOf(n).Properties) > 0 && shown[schemaOf(n)] == nil {
		shown[schemaOf(n)] = map[string]bool{}
	}
	for _, e := range n.Entries {
		if len(schemaOf(n).Properties) > 0 {
			shown[schemaOf(n)][e.Name] = true
		}
		fieldsIn(e.Value, shown)
	}
	for _, item := range n.Items {
		fieldsIn(item, shown)
	}
}
