package worker

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/taskrun"
)

// A command that the kernel would not take is refused here, and the socket goes on.
func TestCommandThatIsTooLarge(t *testing.T) {
	cmd := taskrun.Command{Args: []string{"sh", strings.Repeat("x", maxCommand)}}
	if _, err := resolve(t.Context(), cmd); !errors.Is(err, syscall.E2BIG) {
		t.Errorf("error %v, want E2BIG", err)
	}
}

func TestPassFiles(t *testing.T) {
	in, out, errs := new(os.File), new(os.File), new(os.File)
	for _, c := range []struct {
		in, out, err *os.File
		files        []*os.File
		want         [3]int
	}{
		{nil, nil, nil, nil, [3]int{}},
		{in, out, errs, []*os.File{in, out, errs}, [3]int{1, 2, 3}},
		{nil, out, out, []*os.File{out}, [3]int{0, 1, 1}},
		{in, nil, errs, []*os.File{in, errs}, [3]int{1, 0, 2}},
	} {
		var m wire.Start
		files := passFiles(taskrun.Command{Stdin: c.in, Stdout: c.out, Stderr: c.err}, &m)
		if got := [3]int{m.Stdin, m.Stdout, m.Stderr}; got != c.want || !slices.Equal(files, c.files) {
			t.Errorf("%v of %d files, want %v of %d", got, len(files), c.want, len(c.files))
		}
	}
}
