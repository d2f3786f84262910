package suites_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/suites"
)

func TestChosen(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "mongo": true, "stores": false, "stores,mongo": true, "all": true, "required": false,
		"brokers, mongo required": true,
	} {
		t.Setenv(suites.Env, value)
		if got := suites.Chosen(t, suites.Mongo); got != want {
			t.Errorf("%s=%q: %t, want %t", suites.Env, value, got, want)
		}
	}
}

func TestUnknownSuiteIsRefused(t *testing.T) {
	t.Setenv(suites.Env, "mongo,postgres")
	r := &recorder{TB: t}
	suites.Chosen(r, suites.Mongo)
	if !strings.Contains(r.failed, `unknown suite "postgres"`) {
		t.Errorf("failed with %q, which does not name the suite", r.failed)
	}
}

// A skipped test says what it needs and how to run it.
func TestNeedAndMissing(t *testing.T) {
	t.Setenv(suites.Env, "")
	left := &recorder{TB: t}
	suites.Need(left, suites.Brokers, "a real Kafka")
	if want := "needs a real Kafka: make brokers, or SHARDCTL_TEST=brokers"; left.skipped != want {
		t.Errorf("skipped with %q, want %q", left.skipped, want)
	}

	t.Setenv(suites.Env, "brokers")
	chosen := &recorder{TB: t}
	suites.Need(chosen, suites.Brokers, "a real Kafka")
	suites.Missing(chosen, errNoKafka)
	if chosen.skipped != "no Kafka" || chosen.failed != "" {
		t.Errorf("skipped with %q, failed with %q; want it skipped", chosen.skipped, chosen.failed)
	}

	suites.NeedWhole(chosen, suites.Brokers, "a real Kafka")
	if want := "needs a real Kafka and time: make brokers WHOLE=1, or SHARDCTL_TEST=brokers,whole"; chosen.skipped != want {
		t.Errorf("skipped with %q, want %q", chosen.skipped, want)
	}

	t.Setenv(suites.Env, "brokers,whole")
	whole := &recorder{TB: t}
	suites.NeedWhole(whole, suites.Brokers, "a real Kafka")
	if whole.skipped != "" {
		t.Errorf("skipped with %q", whole.skipped)
	}

	t.Setenv(suites.Env, "brokers,required")
	must := &recorder{TB: t}
	suites.Missing(must, errNoKafka)
	if must.skipped != "" || must.failed != "no Kafka" {
		t.Errorf("skipped with %q, failed with %q; want it failed", must.skipped, must.failed)
	}
}

var errNoKafka = errors.New("no Kafka")

// recorder keeps what a test would have ended with, and goes on.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (*recorder) Helper() {}

func (r *recorder) Skip(args ...any) { r.skipped = fmt.Sprint(args...) }

func (r *recorder) Skipf(format string, args ...any) { r.skipped = fmt.Sprintf(format, args...) }

func (r *recorder) Fatalf(format string, args ...any) { r.failed = fmt.Sprintf(format, args...) }

func (r *recorder) Fatal(args ...any) { r.failed = fmt.Sprint(args...) }
