//go:build unix

package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The error of a start names what is wrong: the directory, the script's interpreter or the variable, where the kernel
// says of each the same as of the program. What an error is stays, and its text is there once.
func TestAStartThatFailsNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	large := strings.Repeat("x", 200_000)
	for _, test := range []struct {
		what string
		spec Spec
		is   error
		want string
	}{
		{"no program", Spec{Path: dir + "/none"}, fs.ErrNotExist, "execute " + dir + "/none: no such file"},
		{"not executable", Spec{Path: file("plain", "#!/bin/sh\n", 0o600)}, fs.ErrPermission, "execute " + dir + "/plain: p"},
		{"no directory", Spec{Path: "/bin/sh", Dir: dir + "/gone"}, fs.ErrNotExist, "directory " + dir + "/gone: no such file"},
		{
			"a file for a directory",
			Spec{Path: "/bin/sh", Dir: file("f", "", 0o600)},
			syscall.ENOTDIR,
			"directory " + dir + "/f: not a directory",
		},
		{
			"CR LF",
			Spec{Path: file("crlf", "#!/bin/sh\r\necho hi\r\n", 0o700)},
			fs.ErrNotExist,
			"execute " + dir + `/crlf: its lines end with CR LF, so that its interpreter is taken for "/bin/sh\r"`,
		},
		{
			"CR LF, by a path within the directory",
			Spec{Path: "./crlf", Dir: dir},
			fs.ErrNotExist,
			`execute ./crlf: its lines end with CR LF`,
		},
		{
			"no interpreter",
			Spec{Path: file("lost", "#!/no/such/sh -e\n", 0o700)},
			fs.ErrNotExist,
			"execute " + dir + "/lost: its interpreter /no/such/sh: no such file",
		},
		{
			"no script",
			Spec{Path: file("text", "echo hi\n", 0o700)},
			syscall.ENOEXEC,
			"execute " + dir + "/text: it is no program of this machine, and no script",
		},
		{
			"a large variable",
			Spec{Path: "/bin/sh", Env: []string{"A=1", "BIG=" + large}},
			syscall.E2BIG,
			"variable BIG has 200004 bytes with its name, 131071 are allowed at most: pass a file: argument list too long",
		},
		{
			"a large argument",
			Spec{Path: "/bin/sh", Args: []string{"sh", large}},
			syscall.E2BIG,
			"argument 1 has 200000 bytes, 131071 are allowed at most: pass a file: argument list too long",
		},
	} {
		s := NewSpawner()
		if test.spec.Args == nil {
			test.spec.Args = []string{test.spec.Path}
		}
		pid, err := s.Start(test.spec)
		if err == nil { // as of the large ones where the kernel takes them
			_, _ = Wait(pid)
			s.Close()
			t.Logf("%s: it starts here", test.what)
			continue
		}
		s.Close()
		got := Explain(t.Context(), test.spec, err)
		if !errors.Is(got, test.is) || !strings.HasPrefix(got.Error(), test.want) {
			t.Errorf("%s: %v, want %s…", test.what, got, test.want)
		}
		if strings.Contains(got.Error(), large) {
			t.Errorf("%s: the value is shown", test.what)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Explain(ended, Spec{}, fs.ErrClosed); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}
