//go:build linux

package suite

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/suites"
)

// playEnv has this test's program play one scenario. It says what is in the records of its cluster.
const playEnv = "SHARDCTL_E2E_SUITE_PLAY"

var _ = func() bool {
	play := os.Getenv(playEnv)
	return play != "" && It("scenario", func() {
		c := NewCluster("played", harness.Options{Cap: 1})
		records, err := filepath.Glob(filepath.Join(Work, "played-*", "records"))
		Expect(err).NotTo(HaveOccurred())
		record := func(h history.Header) {
			w, err := history.Create(records[0], h, history.Timestamp{At: 100})
			Expect(err).NotTo(HaveOccurred())
			Expect(w.Append(history.Timestamp{At: 200})).To(Succeed())
			Expect(w.Close()).To(Succeed())
		}
		record(history.Header{Key: "g/a", Token: 1, Instance: "x", PID: 10})
		switch play {
		case "twice":
			record(history.Header{Key: "g/a", Token: 2, Instance: "y", PID: 20})
		case "over its cap":
			record(history.Header{Key: "g/b", Token: 1, Instance: "x", PID: 11})
		case "a file left":
			Expect(os.WriteFile(filepath.Join(c.TempDir, "left"), nil, 0o600)).To(Succeed())
		}
		Figure("store", "it was played")
	})
}()

func TestPlay(t *testing.T) {
	if os.Getenv(playEnv) == "" {
		t.Skip("is for TestRecordsAreJudged")
	}
	Run(t, suites.Scenarios, "played")
}

// What is in the records is judged, and what is left behind, although the scenario itself has passed.
func TestRecordsAreJudged(t *testing.T) {
	for play, want := range map[string]string{
		"nothing": "", "twice": TwoRuns, "over its cap": "x ran 2 keys at once, of at most 1",
		"a file left": "temporary files that replicas or their tasks left behind",
	} {
		t.Run(play, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPlay$", "-test.v")
			cmd.Env = append(
				os.Environ(), playEnv+"="+play, "TMPDIR="+t.TempDir(), suites.Env+"="+string(suites.Scenarios),
				harness.EnvBinary+"=none", harness.EnvRecorder+"=none",
			)
			text, err := cmd.CombinedOutput()
			out := string(text)
			if (err != nil) != (want != "") {
				t.Errorf("%v\n%s", err, out)
			}
			if !strings.Contains(out, want) {
				t.Errorf("it does not say %q:\n%s", want, out)
			}
			if !strings.Contains(out, "figure: store: it was played") {
				t.Errorf("there is no figure:\n%s", out)
			}
		})
	}
}

func TestTerms(t *testing.T) {
	second := func(s float64) history.Instant { return history.Instant(s * float64(time.Second)) }
	ran := func(key, instance string, token int64, from, to float64) history.Process {
		return history.Process{
			Header: history.Header{Key: key, Token: token, Instance: instance, PID: int(from*1000) + 1},
			First:  history.Timestamp{At: second(from)}, Last: history.Timestamp{At: second(to)},
		}
	}
	afterX := func(o history.Overlap) bool { return o.Earlier.Instance == "x" }
	live := func(from, to float64) []span { return []span{{second(from), second(to)}} }
	for name, test := range map[string]struct {
		terms terms
		ran   []history.Process
		lives []span
		stall time.Duration
		want  int
	}{
		"one after the other": {ran: []history.Process{ran("k", "x", 1, 1, 5), ran("k", "y", 2, 6, 9)}},
		"two at once":         {ran: []history.Process{ran("k", "x", 1, 1, 5), ran("k", "y", 2, 4, 9)}, want: 1},
		"two at once, by intent": {
			terms: terms{allowed: []func(history.Overlap) bool{afterX}},
			ran:   []history.Process{ran("k", "x", 1, 1, 5), ran("k", "y", 2, 4, 9)},
		},
		"two more beside those": {
			terms: terms{allowed: []func(history.Overlap) bool{afterX}},
			ran:   []history.Process{ran("k", "x", 1, 1, 9), ran("k", "y", 2, 4, 7), ran("k", "z", 3, 6, 8)}, want: 1,
		},
		"tokens that fall beside those": {
			terms: terms{allowed: []func(history.Overlap) bool{afterX}},
			ran:   []history.Process{ran("k", "x", 2, 1, 5), ran("k", "y", 1, 4, 9)}, want: 1,
		},
		"as many as the cap": {
			terms: terms{everywhere: 2}, ran: []history.Process{ran("k", "x", 1, 1, 5), ran("l", "x", 1, 1, 5)},
		},
		"one more than the cap": {
			terms: terms{everywhere: 1}, ran: []history.Process{ran("k", "x", 1, 1, 5), ran("l", "x", 1, 5, 6)},
			want: 1,
		},
		"more than one instance may": {
			terms: terms{limits: []limit{{"x", 1}}}, want: 1,
			ran: []history.Process{
				ran("k", "x", 1, 1, 5), ran("l", "x", 1, 1, 5), ran("m", "y", 1, 1, 5), ran("n", "y", 1, 1, 5),
			},
		},
		"lost": {
			terms: terms{always: []string{"k"}}, ran: []history.Process{ran("k", "x", 1, 1, 5)}, lives: live(1, 51),
			want: 1,
		},
		"lost while the machine stood still": {
			terms: terms{always: []string{"k"}}, ran: []history.Process{ran("k", "x", 1, 1, 5)}, lives: live(1, 51),
			stall: 10 * time.Second,
		},
		"lost while no one could run it": {
			terms: terms{always: []string{"k"}}, ran: []history.Process{ran("k", "x", 1, 1, 5)}, lives: live(1, 20),
		},
		"never run": {terms: terms{always: []string{"k"}}, lives: live(1, 51), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			stall := func(_, _ history.Instant) time.Duration { return test.stall }
			got := test.terms.judge(history.New(test.ran), second(60), test.lives, stall)
			if len(got) != test.want {
				t.Errorf("found %q, want %d", got, test.want)
			}
		})
	}
}
