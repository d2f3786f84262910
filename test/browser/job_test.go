//go:build linux

package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const (
	nightlyReport = "reports/nightly-report"
	nightlyExport = "reports/nightly-export"
)

// Somebody is called since jobs failed at night. They know the page's address and nothing else.
func TestFailedJob(t *testing.T) {
	t.Parallel()
	s := newShop(t, "")
	s.broken(t)
	s.repair(t)
	t.Run("in three clicks", func(t *testing.T) { threeClicks(t, s) })
	t.Run("in two commands", func(t *testing.T) { twoCommands(t, s) })
}

func threeClicks(t *testing.T, s *shop) {
	t.Helper()
	r := s.Live()[0]
	p := open(t, admin(r), desk)
	p.whole(t)
	clicks := 0
	click := func(selector string) {
		t.Helper()
		clicks++
		p.click(selector)
	}
	t.Run("it is among the problems", func(t *testing.T) {
		defer p.in(t)()
		click(fmt.Sprintf(`#problems a[href="?task=%s"]`, strings.ReplaceAll(nightlyReport, "/", "%2F")))
		p.wait(`document.querySelector("#one table")`)
		p.wait(`document.querySelector("#one pre").innerText.includes("orders_2026")`)
		p.accessible("job-failed")
		text := p.text("#one")
		for what, want := range map[string]string{
			"which run":  s.scheduled(t, nightlyReport).Local().Format("15:04:05"),
			"how":        "Failed",
			"why":        "exit status 3",
			"its output": `ERROR: relation "orders_2026" does not exist`,
		} {
			if !strings.Contains(eval[string](p, `document.querySelector("#one table").innerText`)+text, want) {
				t.Errorf("%s: the page of the task has no %q:\n%s", what, want, text)
			}
		}
	})
	t.Run("it is started again", func(t *testing.T) {
		defer p.in(t)()
		click(`button[data-verb=trigger]`)
		p.wait(`document.querySelector("#ask").open`)
		p.accessible("ask-trigger")
		click("#ask-yes")
		p.wait(`document.querySelector("#one table").innerText.includes("Succeeded")`)
		p.wait(`!document.querySelector("#one .facts").innerText.includes("exit status 3")`)
		p.accessible("job-succeeded")
	})
	if clicks != 3 {
		t.Errorf("it took %d clicks", clicks)
	}
	p.do(navigate(admin(r)))
	p.repaired()
}

// repaired says that the report is no problem any more.
func (p *tab) repaired() {
	p.t.Helper()
	p.listed()
	p.wait(`document.querySelector("#problems").innerText.includes("jobs/migrate")`)
	p.wait(fmt.Sprintf(`!document.querySelector("#problems").innerText.includes(%q)`, nightlyReport))
}

// The same with two commands, one to look and one to act.
func twoCommands(t *testing.T, s *shop) {
	t.Helper()
	text := s.command(t, "describe", "task")
	_, text, found := strings.Cut(text, nightlyExport)
	for _, want := range []string{
		s.scheduled(t, nightlyExport).UTC().Format("2006-01-02T15:04:05"), "Failed", "exit status 3",
		`relation "orders_2026"`,
	} {
		if !found || !strings.Contains(text, want) {
			t.Errorf("describe task: no %q in:\n%s", want, text)
		}
	}
	t.Log(s.command(t, "trigger", nightlyExport, "--reason", "the table is there now"))
	eventually(t, func(ctx context.Context) error {
		body, err := s.Live()[0].Client.Read(ctx, "/api/v1/tasks/"+nightlyExport+"/runs")
		if err == nil && !strings.Contains(body, `"result":"Succeeded"`) {
			err = errors.New(body)
		}
		return err
	})
}
