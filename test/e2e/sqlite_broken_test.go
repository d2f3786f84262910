//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// damages are ways to break a file in place, as a disk or a careless command does.
var damages = map[string]func(name string) error{
	"overwritten with garbage": func(name string) error {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		return writeInPlace(name, []byte(strings.Repeat("\xa5", int(info.Size()))))
	},
	"cut off": func(name string) error {
		if strings.HasSuffix(name, "-shm") {
			// cut off it would end every program that has it mapped, whatever that is
			return writeInPlace(name, make([]byte, 136))
		}
		return os.Truncate(name, 100)
	},
	"emptied": func(name string) error {
		if strings.HasSuffix(name, "-shm") {
			return writeInPlace(name, make([]byte, 136))
		}
		return os.Truncate(name, 0)
	},
}

// A file that is broken in place is not repaired by waiting: somebody stops the replicas, puts a backup in its place
// and starts them again.
var _ = Describe("A SQLite file that is broken in place", Label("faults-sqlite", "sqlite", Nightly), func() {
	It("crashes no one, stops the tasks of all who cannot go on, and is as good as new with a backup in its place",
		func(ctx SpecContext) {
			var parts []func()
			for what, hurt := range damages {
				parts = append(parts, func() {
					uri := SQLiteURI()
					f := file{
						path: strings.TrimPrefix(uri, "sqlite:"),
						c:    NewCluster("broken", harness.Options{StoreURI: uri, Tasks: fileTasks}),
					}
					defer LogsOnPanic(what, f.c)
					f.breaks(ctx, what, hurt)
				})
			}
			AtOnce(parts...)
		}, SpecTimeout(ScenarioTimeout))
})

// breaks hurts the file under two replicas, and puts a backup in its place.
func (f file) breaks(ctx context.Context, what string, hurt func(name string) error) {
	GinkgoHelper()
	Expect(f.c.Add(ctx, 2)).To(Succeed())
	Eventually(f.c.CheckSpread).WithContext(ctx).WithArguments(fileTasks).Should(Succeed())
	backup := filepath.Join(filepath.Dir(f.path), "backup.db")
	_, err := f.connect(ctx).ExecContext(ctx, "VACUUM INTO ?", backup)
	Expect(err).NotTo(HaveOccurred())

	By("breaking it: " + what)
	workers := f.workers()
	began := history.Now()
	for _, name := range f.parts() {
		Expect(hurt(name)).To(Succeed())
	}
	problem := ""
	for _, r := range f.c.Live() {
		Eventually(func() (string, error) {
			var err error
			problem, err = unreachable(ctx, r)
			return problem, err
		}).ShouldNot(BeEmpty())
	}
	WaitUntil(ctx, began.Add(2*Lease))
	Eventually(f.runsWithoutStore).WithContext(ctx).Should(BeEmpty())
	Expect(f.workers()).To(Equal(workers), "no one crashed")
	Expect(problem).To(ContainSubstring(f.path), "the problem names the file")
	Figure("sqlite", "a file %s: the problem says %q", what, strings.ReplaceAll(problem, f.path, "FILE"))
	ExpectOneRunEach(f.c)

	By("putting a backup in the place of what was " + what)
	for _, r := range f.c.Live() {
		_, err := r.Kill(harness.Guard, syscall.SIGTERM)
		Expect(err).NotTo(HaveOccurred())
	}
	for _, r := range f.c.Live() {
		_, err := r.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
	}
	for _, name := range f.parts() {
		Expect(os.Remove(name)).To(Succeed())
	}
	Expect(os.Rename(backup, f.path)).To(Succeed())
	Expect(f.c.Add(ctx, 2)).To(Succeed())
	Eventually(f.c.CheckSpread).WithContext(ctx).WithArguments(fileTasks).Should(Succeed())
}

// unreachable is what a replica says of its store when it cannot reach it, else nothing.
func unreachable(ctx context.Context, r *harness.Replica) (string, error) {
	status, err := r.Client.Status(ctx)
	for _, p := range status.ProblemsOf("StoreUnreachable") {
		return p.Message, err
	}
	return "", err
}

// runsWithoutStore are the tasks that run in replicas that cannot reach the store. A replica that has every page of a
// file in memory may write on where others find the file cut off. It is as much in order as before.
func (f file) runsWithoutStore(ctx context.Context) ([]string, error) {
	lost := map[string]bool{}
	for _, r := range f.c.Live() {
		problem, err := unreachable(ctx, r)
		if err != nil {
			return nil, err
		}
		lost[r.Name] = problem != ""
	}
	var keys []string
	for key, run := range Load(f.c).Owners() {
		if lost[run.Instance] {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// writeInPlace overwrites the beginning of a file without making another one of it.
func writeInPlace(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("overwrite: %w", err)
	}
	_, err = file.WriteAt(content, 0)
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}
