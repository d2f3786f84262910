package imports_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layers are the packages of the program from the ground up. A package imports what is in its own layer and in those
// below it. An entry stands for the packages below it as well, unless they have an entry of their own.
var layers = []struct{ name, packages string }{
	{"tools", `internal/clock internal/connect internal/decode internal/field internal/httpkeep internal/process
		internal/variables internal/web pkg/api pkg/client`},
	{"stores", "internal/protocol internal/refusals pkg/fence pkg/idempotency pkg/store"},
	{"documents", "internal/access internal/cluster internal/published internal/record internal/verbs"},
	{"locks", "internal/electing pkg/elect"},
	{"plans", "internal/reconcile internal/storecopy pkg/balancer pkg/idempotency/idempotencystore pkg/mutex"},
	{"tasks", `internal/discover internal/endpoint internal/kind internal/runners internal/runs internal/settings
		internal/subscribe internal/supervisor internal/taskrun pkg/jobs pkg/tasks`},
	{"services", `internal/config internal/guard internal/kinds internal/metrics internal/route internal/snapshot
		internal/status internal/storecheck internal/tracing internal/weights`},
	{"views", "internal/operate internal/view"},
	{"replicas", "internal/replica"},
	{"what a replica works for", "internal/application pkg/shard"},
	{"commands", "internal/admin internal/cli internal/dev internal/lockcommand"},
	{"the program", "cmd internal/program pkg/shardctl"},
}

// Imports go down. What a package under pkg imports of internal is therefore as light as itself.
func TestImportsGoDown(t *testing.T) {
	out, err := exec.CommandContext(
		t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"cmd/...", module+"internal/...",
		module+"pkg/...",
	).Output()
	if err != nil {
		t.Fatal(err)
	}
	imports := strings.Count(string(out), module)
	if imports < 300 {
		t.Fatalf("%d imports are listed", imports)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(strings.ReplaceAll(line, module, "./"))
		from := layerOf(words[0])
		if from < 0 {
			t.Errorf("%s is in no layer", words[0])
			continue
		}
		for _, to := range words[1:] {
			if strings.HasPrefix(to, "./") && layerOf(to) > from {
				t.Errorf("%s of %q imports %s of %q, which is above it", words[0], layers[from].name, to,
					layers[layerOf(to)].name)
			}
		}
	}
}

// layerOf is the layer of the longest entry that a package is below; -1: there is none.
func layerOf(pkg string) int {
	pkg = strings.TrimPrefix(pkg, "./")
	for {
		if at := slices.IndexFunc(layers, func(l struct{ name, packages string }) bool {
			return slices.Contains(strings.Fields(l.packages), pkg)
		}); at >= 0 {
			return at
		}
		cut := strings.LastIndexByte(pkg, '/')
		if cut < 0 {
			return -1
		}
		pkg = pkg[:cut]
	}
}
