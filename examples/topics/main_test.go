package main

import (
	"os"
	"strings"
	"testing"
)

// The tests of docs run what the README shows.
func TestTheREADMEShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "\npackage main\n")
	if !strings.Contains(string(readme), "\npackage main\n"+code) {
		t.Error("the README has another program")
	}
}
