//go:build unix

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// load reads the results of earlier runs from a file of JSON lines; one that is not there has none.
func load(file string) ([]result, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) || file == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("earlier results: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	var all []result
	for decoder := json.NewDecoder(f); ; {
		var one result
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("earlier results in %s: %w", file, err)
		}
		all = append(all, one)
	}
}

// save appends results to such a file.
func save(file string, results []result) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	encoder := json.NewEncoder(f)
	for _, one := range results {
		err = errors.Join(err, encoder.Encode(one))
	}
	return errors.Join(err, f.Close())
}

// table prints results, the longest first.
func table(w io.Writer, results []result, took time.Duration) {
	sorted := slices.SortedStableFunc(slices.Values(results),
		func(a, b result) int { return -cmp.Compare(a.Took, b.Took) })
	again := 0
	_, _ = fmt.Fprintf(w, "\n%-15s %8s %8s  %-8s %s\n", "job", "time", "CPU", "", "tried again")
	for _, one := range sorted {
		_, _ = fmt.Fprintf(w, "%-15s %8s %8s  %-8s %d\n", one.Job, seconds(one.Took), seconds(one.CPU), one.Status,
			len(one.TriedAgain))
		again += len(one.TriedAgain)
	}
	_, _ = fmt.Fprintf(w, "%-15s %8s %8s  %-8s %d\n", "this run", seconds(took), "", "", again)
	for _, one := range sorted {
		for _, line := range one.TriedAgain {
			_, _ = fmt.Fprintf(w, "tried again in %s: %s\n", one.Job, line)
		}
		for _, text := range one.Failures {
			_, _ = fmt.Fprintf(w, "in %s:\n%s\n", one.Job, text)
		}
		for _, line := range one.CutShort {
			_, _ = fmt.Fprintf(w, "cut short in %s: %s\n", one.Job, line)
		}
		if one.Why != "" {
			_, _ = fmt.Fprintf(w, "%s %s: %s\n", one.Job, one.Status, one.Why)
		}
		if one.Cached > 0 {
			_, _ = fmt.Fprintf(w, "not repeated in %s: %d packages that passed before, unchanged\n", one.Job,
				one.Cached)
		}
	}
}

func seconds(d time.Duration) string { return d.Round(time.Second).String() }
