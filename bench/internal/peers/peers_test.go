//go:build linux

package peers

import (
	"os"
	"path/filepath"
	"testing"
)

const beginMark, endMark = "<!-- some: begin -->\n", "<!-- some: end -->"

func TestWriteReplacesWhatIsBetweenTheMarks(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+beginMark+"old\n"+endMark+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time as the first
		if err := Write(page, "some", "| new |\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + beginMark + "| new |\n" + endMark + "after\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriteRefusesAPageWithoutMarks(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(page, "some", "| new |\n"); err == nil {
		t.Error("no error")
	}
}

func TestSumAddsUpSeriesWithAllLabels(t *testing.T) {
	m := metrics{
		"# HELP requests_total of this server", `requests_total{resource="leases",verb="PUT"} 3`,
		`requests_total{verb="PUT",resource="leases",code="409"} 2`, `requests_total{resource="pods",verb="PUT"} 5`,
		`requests_total_other{resource="leases",verb="PUT"} 7`, "puts_total 1.5e+01",
	}
	if got := m.sum("requests_total", `resource="leases"`, `verb="PUT"`); got != 5 {
		t.Errorf("with labels: %v, want 5", got)
	}
	if got := m.sum("puts_total"); got != 15 {
		t.Errorf("without labels: %v, want 15", got)
	}
}
