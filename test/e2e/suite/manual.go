//go:build linux

package suite

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/pageblock"
)

// ExpectShown runs the commands that a page of the manual shows under this name (<!-- shown: NAME -->), and waits until
// each prints what the page says. They ask the replica; a configuration that they name is the replica's.
func ExpectShown(ctx context.Context, name string, r *harness.Replica) {
	GinkgoHelper()
	block := shownAs(name)
	for _, c := range block.Commands() {
		args := pageblock.Words(c.Text)[1:]
		if at := slices.Index(args, "--config"); at >= 0 {
			args[at+1] = r.Config
		} else {
			args = append(args, "--server", r.Client.AdminURL())
		}
		code := 0
		if strings.Contains(c.Text, "# exit code 1") {
			code = 1
		}
		pattern := pageblock.Pattern(c.Output)
		Eventually(func(g Gomega) {
			got, err := harness.Command(ctx, Bins.Shardctl, args...)
			g.Expect(err).NotTo(HaveOccurred())
			printed := got.Stdout + got.Stderr
			g.Expect(got.Code).To(Equal(code), printed)
			g.Expect(pattern.MatchString(printed)).To(BeTrue(), "%s:%d: %s printed\n%s\nand the page shows\n%s",
				block.Page, block.Line, c.Text, format.Object(printed, 0), c.Output)
		}).WithContext(ctx).Should(Succeed())
	}
}

// shownAs is the block of the manual with this name.
func shownAs(name string) pageblock.Block {
	GinkgoHelper()
	pages, err := filepath.Glob(filepath.Join(repository(), "docs", "operations", "*.md"))
	Expect(err).NotTo(HaveOccurred())
	for _, page := range pages {
		text, err := os.ReadFile(page)
		Expect(err).NotTo(HaveOccurred())
		for _, block := range pageblock.Blocks(page, string(text)) {
			if block.Directive == "shown: "+name {
				return block
			}
		}
	}
	Fail("no page of docs/operations has a block that is shown as " + name)
	return pageblock.Block{}
}

// repository is the root of this module: scenarios run in the directory of their package.
func repository() string {
	GinkgoHelper()
	dir, err := os.Getwd()
	Expect(err).NotTo(HaveOccurred())
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	Fail("there is no go.mod above the directory of the scenarios")
	return ""
}
