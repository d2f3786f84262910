// Command comments finds names in comments that the code no longer has, as a rename leaves them behind:
//
//	go run ./test/comments .
//
// It parses the Go files of a module, without types. It reports a word with a capital within a sentence if only the
// same word with a small first letter is declared; a member of a type, or a name of a package of this module, behind a
// dot or in a doc link, if there is none; and documentation that begins with the end of the name, or with the name in
// other letters. A word that must stand all the same is written as a doc link or in lower case.
//
// A name that an import declares counts as one that may be meant, so that not every old name is found.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// products are words with a capital that are names elsewhere.
var products = map[string]bool{"Java": true, "MariaDB": true}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "comments: want the directory of a module")
		os.Exit(2)
	}
	hits, err := run(os.Args[1])
	for _, h := range hits {
		fmt.Fprintln(os.Stdout, h)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "comments:", err)
	}
	if err != nil || len(hits) > 0 {
		os.Exit(1)
	}
}

func run(root string) ([]Hit, error) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	t, err := read(root, strings.TrimSpace(strings.TrimPrefix(first, "module ")))
	if err != nil {
		return nil, err
	}
	return t.check(), nil
}
