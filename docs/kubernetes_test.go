package docs_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/kinds"
)

const exampleValues = root + "/examples/kubernetes/values.yaml"

// What people are asked to install is what the chart is checked with, as it stands.
func TestExampleValues(t *testing.T) {
	const checkedPath = root + "/helm/shardctl/ci/readme-values.yaml"
	_, checked, _ := strings.Cut(read(t, checkedPath), "\n") // the first line says what the file is for
	if example := read(t, exampleValues); example != checked {
		t.Errorf("%s has\n%s\nand %s\n%s", exampleValues, example, checkedPath, checked)
	}
}

// What stands under config in them is a configuration.
func TestExampleValuesAreAConfiguration(t *testing.T) {
	var values struct {
		ReplicaCount int `yaml:"replicaCount"`
		Config       any `yaml:"config"`
	}
	if err := yaml.Unmarshal([]byte(read(t, exampleValues)), &values); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(values.Config)
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, string(text)+"store: {uri: \"mongodb://db/shardctl\"}\n")
	s, err := config.Load([]string{path}, config.Options{
		Env: func(string) (string, bool) { return "", false }, Kinds: kinds.All(), Listers: kinds.Listers(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Tasks() != 100 || values.ReplicaCount != 5 || len(s.Groups) != 1 || s.Groups[0].Cap == nil ||
		*s.Groups[0].Cap != 30 {
		t.Errorf(
			"%d replicas, %d tasks, groups %+v; the text says a hundred on five, at most 30 on each",
			values.ReplicaCount, s.Tasks(), s.Groups,
		)
	}
}

var size = regexp.MustCompile(`^\| (\d+) × (\d+) \| (\d+) \| ([\d–]+) \| (.+?) \| f = (\d+): (.+?) \|$`)

// The table of sizes adds up.
func TestSizes(t *testing.T) {
	const tasks, nodes = 100, 3
	rows := 0
	for line := range strings.Lines(read(t, "kubernetes.md")) {
		m := size.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		rows++
		replicas, limit, lost := number(t, m[1]), number(t, m[2]), (number(t, m[1])+nodes-1)/nodes
		for _, c := range []struct{ what, has, want string }{
			{"capacity", m[3], strconv.Itoa(replicas * limit)},
			{"each", m[4], share(tasks, replicas)},
			{"after one loss", strings.Trim(m[5], "*"), left(tasks, replicas-1, limit)},
			{"replicas of a node", m[6], strconv.Itoa(lost)},
			{"after a node's loss", strings.Trim(m[7], "*"), left(tasks, replicas-lost, limit)},
		} {
			if c.has != c.want {
				t.Errorf("%d × %d: %s: %q, want %q", replicas, limit, c.what, c.has, c.want)
			}
		}
	}
	if rows < 5 {
		t.Errorf("%d rows of sizes", rows)
	}
}

// share is how many of the tasks each of the replicas has.
func share(tasks, replicas int) string {
	least, most := tasks/replicas, (tasks+replicas-1)/replicas
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d–%d", least, most)
}

// left is how it looks with so many replicas left.
func left(tasks, replicas, limit int) string {
	switch capacity := replicas * limit; {
	case capacity < tasks:
		return fmt.Sprintf("%d left over", tasks-capacity)
	case capacity == tasks:
		return share(tasks, replicas) + " each, full"
	default:
		return share(tasks, replicas) + " each"
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shardctl.yaml")
	writeFile(t, path, text)
	return path
}
