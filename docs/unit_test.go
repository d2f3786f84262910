package docs_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/suites"
)

// The sample unit takes away what a replica and its tasks do not need, and leaves what the guard does.
func TestTheSampleUnitIsHardened(t *testing.T) {
	unit := read(t, "shardctl.service")
	for _, want := range []string{
		"NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "CapabilityBoundingSet=",
		"Delegate=yes", "KillMode=mixed", "RestartPreventExitStatus=78",
	} {
		if !strings.Contains(unit, "\n"+want+"\n") {
			t.Errorf("there is no line %s", want)
		}
	}
	// The guard makes control groups, and tasks may compile at run time.
	if set := regexp.MustCompile(`(?m)^(ProtectControlGroups|MemoryDenyWriteExecute)=`).FindString(unit); set != "" {
		t.Errorf("%s is set", set)
	}
}

// What systemd says of the unit, where it is installed. The program need not be.
func TestSystemdTakesTheSampleUnit(t *testing.T) {
	suites.Need(t, suites.Processes, "systemd-analyze")
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	unit := regexp.MustCompile(`(?m)^ExecStart=\S+`).ReplaceAllString(read(t, "shardctl.service"), "ExecStart=/bin/true")
	path := filepath.Join(t.TempDir(), "shardctl.service")
	writeFile(t, path, unit)
	out, err := exec.CommandContext(t.Context(), program, "verify", "--man=no", path).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
