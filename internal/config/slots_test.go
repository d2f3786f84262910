package config

import (
	"strconv"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks"
)

const slotsHead = "store: {uri: \"sqlite:a.db\"}\ngroups:\n  - name: g\n    slots: 3\n"

func TestSlotsAreTasksOfTheTemplate(t *testing.T) {
	g := loadText(t, slotsHead+`    defaults: {weight: 2}
    tasks: [{name: own, exec: {command: [a]}}]
    template:
      labels: {number: $(SHARDCTL_INDEX)}
      exec: {command: [serve, $(SHARDCTL_TASK)]}
`).Groups[0]
	if g.Slots != 3 || len(g.Tasks) != 4 || g.Tasks[0].Name != "own" {
		t.Fatalf("%d slots, tasks %+v", g.Slots, g.Tasks)
	}
	for i, task := range g.Tasks[1:] {
		number := strconv.Itoa(i)
		if task.Name != "slot-00"+number || task.Index != number || task.Labels["number"] != number ||
			task.Weight != 2 || task.Group != "g" || task.Discovered != (tasks.Discovered{}) {
			t.Errorf("slot %d is %+v", i, task)
		}
	}
}

func TestSlotsOfTwoFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", "store: {uri: \"sqlite:a.db\"}\ngroups: [{name: g, slots: $(N)}]\n")
	write(t, dir+"/b.yaml", "groups: [{name: g, template: {exec: {command: [a]}}}]\n")
	s, err := Load([]string{dir + "/a.yaml", dir + "/b.yaml"}, optionsOf(func(name string) (string, bool) {
		return "1001", name == "N"
	}))
	if err != nil {
		t.Fatal(err)
	}
	if g := s.Groups[0]; len(g.Tasks) != 1001 || g.Tasks[7].Name != "slot-0007" || g.Tasks[1000].Name != "slot-1000" {
		t.Errorf("%d tasks, %+v", len(g.Tasks), g.Tasks[7])
	}
}

// Another number is another list: nothing is removed until all replicas have it.
func TestHashOfSlots(t *testing.T) {
	hash := func(text string) string { return loadText(t, text).Groups[0].Hash }
	const template = "    template: {exec: {command: [a]}}\n"
	base := hash(slotsHead + template)
	for what, text := range map[string]string{
		"another number":   strings.Replace(slotsHead, "3", "4", 1) + template,
		"another template": slotsHead + strings.Replace(template, "[a]", "[b]", 1),
		"defaults":         slotsHead + "    defaults: {weight: 3}\n" + template,
		"a task":           slotsHead + template + "    tasks: [{name: own, exec: {command: [a]}}]\n",
	} {
		if hash(text) == base {
			t.Errorf("%s has the same hash", what)
		}
	}
}

// What is printed has the number and the template, so that it says which keys have which slot.
func TestSlotsArePrintedAsTheyAreWritten(t *testing.T) {
	const template = "    template: {exec: {command: [serve, $(SHARDCTL_TASK)]}, labels: {a: $(SHARDCTL_INDEX)}}\n"
	text := printed(t, loadText(t, slotsHead+template))
	for _, want := range []string{"slots: 3", "template:", "$(SHARDCTL_TASK)", "a: $(SHARDCTL_INDEX)", "tasks: []"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if g := loadText(t, text).Groups[0]; g.Slots != 3 || g.Tasks[2].Labels["a"] != "2" {
		t.Errorf("printed and loaded again: %+v", g)
	}
}
