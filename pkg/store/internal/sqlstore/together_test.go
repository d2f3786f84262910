package sqlstore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// Writes that wait for the writer go into one transaction, as many as a batch has, and each has its own outcome. One
// that fails, and one whose caller is gone, takes no other with it.
func TestWritesTogether(t *testing.T) {
	for name, tt := range map[string]struct {
		bad     bool
		changes int // of a write
		commits int32
	}{
		"all are well":                   {changes: 1, commits: 1},
		"one fails":                      {changes: 1, bad: true, commits: 8},
		"they are more than a batch has": {changes: driver.MaxBatch / 4, commits: 3},
	} {
		t.Run(name, func(t *testing.T) {
			g, ctx := NewWithT(t), t.Context()
			s, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "store.db"), sqlite.Options{})
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { g.Expect(s.Close(context.WithoutCancel(ctx))).To(Succeed()) })
			b := sqlstore.Of(s)
			g.Expect(b.OnWriter(ctx, `CREATE TEMP TRIGGER bad BEFORE INSERT ON "default_values" WHEN NEW.id = 'g/bad'
				BEGIN SELECT RAISE(ABORT, 'as the test wants'); END`)).To(Succeed())
			var commits atomic.Int32
			g.Expect(b.OnConnection(ctx, func(conn any) {
				register := reflect.ValueOf(conn).MethodByName("RegisterCommitHook") // its package is the dialect's alone
				count := func() int32 { commits.Add(1); return 0 }
				register.Call([]reflect.Value{reflect.ValueOf(count).Convert(register.Type().In(0))})
			})).To(Succeed())

			waiting, release := b.HoldWriter()
			const well, gone, all = 9, 9, 10
			leaving, leave := context.WithCancel(ctx)
			var calls sync.WaitGroup
			outs := make([]driver.Outcome, all)
			ids := make([]string, all)
			for i := range all {
				caller := ctx
				ids[i] = fmt.Sprintf("g/%d", i)
				switch {
				case i == 0 && tt.bad:
					ids[i] = "g/bad"
				case i == gone:
					caller = leaving
				}
				calls.Go(func() {
					changes := make([]driver.Change, tt.changes)
					for j := range changes {
						changes[j] = driver.Change{Doc: driver.Doc{
							Kind: driver.KindValue, ID: ids[i] + strings.Repeat("+", j), Rev: 1, Body: []byte(`{}`),
							WriterID: driver.WriterID{Session: "s", Seq: int64(i*driver.MaxBatch + j + 1)},
						}}
					}
					answer, err := s.Apply(caller, changes...)
					if err == nil {
						outs[i] = answer[0]
					}
				})
				g.Eventually(waiting).Should(Equal(i + 1))
			}
			leave()
			g.Eventually(waiting).Should(Equal(all - 1))
			release()
			calls.Wait()
			g.Expect(commits.Load()).To(Equal(tt.commits))
			found, err := s.Read(ctx, driver.KindValue, ids...)
			g.Expect(err).NotTo(HaveOccurred())
			written := map[string]bool{}
			for _, d := range found.Docs {
				written[d.ID] = true
			}
			for i, out := range outs[:well] {
				good := !tt.bad || i > 0
				want := Equal(driver.Applied)
				if !good {
					want = Not(want)
				}
				g.Expect(out.Status).To(want, "%s: %+v", ids[i], out)
				g.Expect(written[ids[i]]).To(Equal(good), ids[i])
			}
			g.Expect(written).NotTo(HaveKey(ids[gone]))
		})
	}
}
