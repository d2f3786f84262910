package lockcommand

import (
	"slices"
	"testing"

	"github.com/shardctl/shardctl/internal/variables"
)

// The service manager's socket is this process's: what a command wrote to it would count as said by shardctl.
func TestEnvironIsWithoutWhatIsNotTheCommands(t *testing.T) {
	base := []string{
		"PATH=/bin", "NOTIFY_SOCKET=/run/x", "SHARDCTL_STORE_URI=x", "SHARDCTL_ADMIN_TOKEN=x",
		"SHARDCTL_KEY=of an outer one",
	}
	got := environ(base, nil, variables.Set{"SHARDCTL_KEY": "locks/k"})
	if want := []string{"PATH=/bin", "SHARDCTL_KEY=locks/k"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
