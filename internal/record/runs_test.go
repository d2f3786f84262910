package record

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

func TestRunsKeepTheNewest(t *testing.T) {
	r := Runs{Key: "g/t"}
	for i := range int64(30) {
		r.Add(Run{Tick: i + 1, Start: i + 1, End: i + 2, Result: RunSucceeded, Attempt: 1, Token: i + 1})
	}
	for i := range int64(30) {
		r.Add(Run{Tick: 100 + i, Result: RunSkipped})
	}
	var ticks []int64
	for _, run := range r.List {
		ticks = append(ticks, run.Tick)
	}
	if want := []int64{129, 128, 127, 30, 29, 28, 27, 26, 25, 24}; !slices.Equal(ticks, want) {
		t.Errorf("%v, want %v: ten, of which three were skipped", ticks, want)
	}
}

func TestARunIsAddedOnce(t *testing.T) {
	r := Runs{Key: "g/t"}
	run := Run{Tick: 7, Start: 10, End: 20, Result: RunFailed, Attempt: 2, Token: 3, Instance: "a"}
	r.Add(run)
	r.Add(run)
	if len(r.List) != 1 {
		t.Errorf("%+v", r.List)
	}
}

func TestARunThatWasCutOffInOrderIsNotGuessed(t *testing.T) {
	own := Run{Tick: 7, Start: 10, End: 20, Result: RunInterrupted, Attempt: 1, Token: 3, Instance: "a"}
	guess := Run{Tick: 7, Start: 12, Result: RunInterrupted, Instance: "a"} // since it said that it runs
	for name, list := range map[string][]Run{"own first": {own, guess}, "guess first": {guess, own}} {
		r := Runs{Key: "g/t"}
		for _, run := range list {
			r.Add(run)
		}
		if len(r.List) != 1 || r.List[0] != own {
			t.Errorf("%s: %+v", name, r.List)
		}
	}
	r := Runs{Key: "g/t", List: []Run{own}}
	r.Add(Run{Tick: 8, Start: 30, Result: RunInterrupted, Instance: "a"})
	if len(r.List) != 2 || !r.List[0].guessed() {
		t.Errorf("another tick's: %+v", r.List)
	}
}

func TestRunsAreCappedInBytes(t *testing.T) {
	r := Runs{Key: "g/t", Rev: 4}
	for i := range int64(MaxRuns) {
		r.Add(Run{
			Tick: i + 1, Start: 1, End: 2, Result: RunFailed, Error: strings.Repeat("é", 5000),
			Output: strings.Repeat("\x00é", 5000) + "end", Token: i,
		})
	}
	d := r.Doc(driver.WriterID{Session: "s", Seq: 1})
	if err := driver.ValidateChanges([]driver.Change{{Doc: d}}); err != nil {
		t.Fatal(err)
	}
	if len(d.Body) > maxAll+100 {
		t.Errorf("%d bytes", len(d.Body))
	}
	got, err := RunsFrom(d)
	if err != nil || !slices.Equal(got.List, r.List) || got.Key != r.Key || got.Rev != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range r.List {
		r.List[i].Error, r.List[i].Output = strings.Repeat("\x01", driver.MaxText), strings.Repeat("\x01", MaxOutput)
	}
	r.Add(Run{Tick: 100, Start: 100})
	if size := len(r.Doc(driver.WriterID{}).Body); size > maxAll+100 {
		t.Errorf("%d bytes of control characters", size)
	}
	if !strings.HasSuffix(got.List[0].Output, "end") {
		t.Error("the end of the output is missing")
	}
}

func TestMalformedRunsAreLeftOut(t *testing.T) {
	got, err := RunsFrom(driver.Doc{
		Kind: driver.KindValue, ID: RunsID("g/t"), Body: []byte(`{"runs":[{"start":-1,"result":"Failed"}]}`),
	})
	if err == nil || len(got.List) != 1 || got.List[0].Start != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := RunsFrom(driver.Doc{Body: []byte("{")}); err == nil {
		t.Error("no error")
	}
}
